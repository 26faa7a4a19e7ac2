#include "../policies/learning/posterior_walk.h"

#include <nanobind/stl/string.h>

#include "learning.h"
#include "parts.h"

namespace {
using namespace glue;

template <class T> nb::object numpy(const std::vector<std::size_t> &shape, hw::View<T> values) {
    auto *data = new T[static_cast<std::size_t>(values.size) + 1];
    for (Int i = 0; i < values.size; ++i) data[i] = values[i];
    nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });
    using Out = std::conditional_t<std::is_same_v<T, Int>, std::int64_t, T>;
    auto *const start = reinterpret_cast<Out *>(data);
    return nb::cast(nb::ndarray<nb::numpy, Out>(start, shape.size(), shape.data(), owner));
}

// The posterior of the law of X given counts of the channels' rows, and a chain of draws from it.
class PosteriorWalk {
  public:
    PosteriorWalk(const Channels &channels, double alpha) : channels_(channels), owned_(geometry(channels, alpha)) {}

    Int prepare(Known<double, 1> counts) {
        check(counts);
        return hw::prepare(owned_.thing, view(counts));
    }
    bool stale(Known<double, 1> counts) const {
        check(counts);
        return hw::stale(owned_.thing, view(counts));
    }
    void forget() { hw::forget(owned_.thing); }
    nb::object prepared_counts() const { return numbers(owned_.thing.seen); }

    Int walk(Numbers p, Known<double, 1> counts, Int steps, hw::Long seed, Int replication, Int round) {
        check(counts);
        expect_size("p", view(p), owned_.thing.channels.atoms());
        return hw::walk(owned_.thing, view(counts), steps, {hw::Key::of(seed), replication, round}, view(p));
    }

    // Fill `out` (draws, J): from the centre, `burn_in` rounds of the recommended steps, then a row after
    // every `thin` steps.
    void fill(Matrix out, Known<double, 1> counts, Int burn_in, Int thin, hw::Long seed) {
        check(counts);
        const hw::Table table = view(out);
        const Int atoms = owned_.thing.channels.atoms();
        expect(table.columns == atoms, "out: its rows", table.columns, atoms);
        hw::prepare(owned_.thing, view(counts));
        std::vector<double> p(static_cast<std::size_t>(atoms));
        const hw::Doubles chain{p.data(), atoms};
        hw::start_at_centre(owned_.thing, chain);
        nb::gil_scoped_release released;
        hw::WalkStream stream{hw::Key::of(seed)};
        for (Int i = 0; i < burn_in + table.rows; ++i) {
            stream.round = i;
            const Int steps = i < burn_in ? hw::recommended_steps(atoms) : thin;
            hw::walk(owned_.thing, view(counts), steps, stream, chain);
            if (i >= burn_in) hw::copy<double>(chain, table[i - burn_in]);
            if (i % 256 == 255) poll();
        }
    }

    // What was prepared, by name; `directions` (G - 1, G) has one in a row.
    nb::dict prepared() const {
        const hw::PosteriorGeometry &geometry = owned_.thing;
        const Int groups = geometry.prepared ? geometry.groups : 0, m = groups > 0 ? groups - 1 : 0;
        nb::dict out;
        out["group"] = numbers(geometry.group);
        out["size"] = numbers(geometry.size.first(groups));
        out["first"] = numbers(geometry.first.first(groups));
        out["order"] = numbers(geometry.order.first(groups));
        out["prior"] = numbers(geometry.prior.first(groups));
        out["centre"] = numbers(geometry.centre.first(groups));
        out["place"] = numbers(geometry.place);
        out["directions"] = rows(geometry.directions, m, groups);
        out["slopes"] = rows(geometry.slopes, m, geometry.rows);
        return out;
    }

  private:
    template <class T> static nb::object numbers(hw::View<T> x) {
        return numpy<T>({static_cast<std::size_t>(x.size)}, x);
    }

    // The first rows and columns of a table.
    static nb::object rows(hw::Table table, Int count, Int columns) {
        std::vector<double> out;
        for (Int k = 0; k < count; ++k) out.insert(out.end(), table[k].begin(), table[k].begin() + columns);
        const auto size = [](Int n) { return static_cast<std::size_t>(n); };
        return numpy<double>({size(count), size(columns)}, {out.data(), count * columns});
    }

    static hw::PosteriorGeometry geometry(const Channels &channels, double alpha) {
        if (!(alpha > 0.0)) throw nb::value_error("alpha: expected a number > 0");
        hw::PosteriorGeometry out;
        out.channels = channels.view;
        out.alpha = alpha;
        return out;
    }
    void check(const Known<double, 1> &counts) const {
        expect_size("counts", view(counts), owned_.thing.channels.rows());
    }

    static void poll() {
        nb::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }

    Channels channels_;  // kept alive: the geometry looks at them
    Owned<hw::PosteriorGeometry> owned_;
};

}  // namespace

void glue::bind_posterior(nb::module_ &m) {
    nb::class_<PosteriorWalk>(m, "PosteriorWalk")
        .def(nb::init<const Channels &, double>(), nb::arg("channels"), nb::kw_only(), nb::arg("alpha"))
        .def("prepare", &PosteriorWalk::prepare, nb::arg("counts"))
        .def("stale", &PosteriorWalk::stale, nb::arg("counts"))
        .def("forget", &PosteriorWalk::forget)
        .def("walk", &PosteriorWalk::walk, nb::arg("p"), nb::arg("counts"), nb::kw_only(), nb::arg("steps"),
             nb::arg("seed"), nb::arg("replication") = 0, nb::arg("t"))
        .def("fill", &PosteriorWalk::fill, nb::arg("out"), nb::arg("counts"), nb::kw_only(),
             nb::arg("burn_in"), nb::arg("thin"), nb::arg("seed"))
        .def_prop_ro("prepared_counts", &PosteriorWalk::prepared_counts)
        .def_prop_ro("prepared", &PosteriorWalk::prepared);
    m.attr("NEWTON_STEPS") = hw::posterior::newton_steps;
    m.def("rough_log", [](double x) { return hw::posterior::rough_log(x); }, nb::arg("x"));
    m.def("recommended_steps", [](Int atoms) { return hw::recommended_steps(atoms); }, nb::arg("atoms"));
}
