// What a GPU is handed, for Python to bring there: a problem's arrays in one block, and the numbers of a launch.
#include <cstring>

#include "../engines/gpu_emulated.h"
#include "model.h"
#include "parts.h"

namespace glue {
namespace {

using namespace nb::literals;
using hw::gpu::Launch;
using hw::gpu::Problem;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Lays arrays one after the other in a block that will lie at an address of the GPU, and turns views of them into views of that.
class Image {
  public:
    Image(Int address, unsigned char *block) : arena_(reinterpret_cast<void *>(address)), address_(address), block_(block) {}

    template <class T> void move(hw::View<const T> &x) { x.data = place(x.data, x.size); }
    template <class T> void move(hw::Grid<const T> &x) { x.data = place(x.data, x.size()); }
    template <class T> void move(hw::Cube<const T> &x) { x.data = place(x.data, x.size()); }
    // In 32 bits.
    hw::Cube<const int> narrow(const hw::Cube<const Int> &x) {
        const hw::Cube<int> out = arena_.cube<int>(x.layers, x.rows, x.columns);
        if (block_ != nullptr) {
            int *const to = reinterpret_cast<int *>(block_ + (reinterpret_cast<Int>(out.data) - address_));
            for (Int i = 0; i < x.size(); ++i) to[i] = static_cast<int>(x.data[i]);
        }
        return out;
    }
    Int used() const { return arena_.used(); }

  private:
    template <class T> const T *place(const T *from, Int size) {
        if (size == 0) return nullptr;
        const T *const to = arena_.view<T>(size).data;
        if (block_ != nullptr) std::memcpy(block_ + (reinterpret_cast<Int>(to) - address_), from, static_cast<std::size_t>(size) * sizeof(T));
        return to;
    }
    hw::Arena arena_;
    Int address_;
    unsigned char *block_;
};

void move(Image &image, hw::ChannelView &x) {
    image.move(x.start), image.move(x.row), image.move(x.weight), image.move(x.begin), image.move(x.atom);
    image.move(x.sure), image.move(x.chance), image.move(x.pair), image.move(x.cell), image.move(x.lone);
    image.move(x.g), image.move(x.offset), image.move(x.error), image.move(x.strain);
}

// The limits of draws of 64 bits, of which the last 11 do not count.
void set_limits(Problem &problem) {
    const hw::KnownInts thresholds = problem.law.thresholds;
    for (Int i = 0; i < hw::gpu::linear_atoms; ++i)
        problem.limits[i] = i < thresholds.size && thresholds[i] < Int(1) << 53 ? static_cast<hw::Long>(thresholds[i]) << 11 : ~hw::Long(0);
}

// The problem, its arrays where they are.
Problem problem_here(const Model &model, const Source &source, const hw::Settings &settings) {
    Problem out;
    out.rewards = model.rewards.view, out.law = source.view, out.settings = settings;
    if (model.evidence) out.evidence = model.evidence->view;
    if (model.random) out.random = model.random->view;
    out.keys = hw::gpu::Schedule::of(settings.key);
    set_limits(out);
    return out;
}

// The problem as a GPU reads it, its arrays in the image.
Problem problem_at(Image &image, const Model &model, const Source &source, const hw::Settings &settings, bool narrow) {
    Problem out = problem_here(model, source, settings);
    if (narrow) {
        out.narrow = image.narrow(out.rewards.table);
        out.rewards.table = {nullptr, out.narrow.layers, out.narrow.rows, out.narrow.columns};
    } else {
        image.move(out.rewards.table);
    }
    image.move(out.law.thresholds), image.move(out.law.guide), image.move(out.law.level), image.move(out.law.cuts);
    image.move(out.random.g), image.move(out.random.channels), image.move(out.random.levels), image.move(out.random.starts);
    image.move(out.evidence.pays), image.move(out.evidence.bins);
    move(image, out.evidence.channels);
    return out;
}

template <class T> nb::bytes bytes_of(const T &x) { return nb::bytes(&x, sizeof x); }
template <class T> T from_bytes(const nb::bytes &x) {
    static_assert(std::is_trivially_copyable_v<T>);
    expect(x.size() == sizeof(T), "bytes", static_cast<Int>(x.size()), sizeof(T));
    T out;
    std::memcpy(&out, x.data(), sizeof out);
    return out;
}

}  // namespace

void bind_gpu(nb::module_ &m) {
    nb::module_ gpu = m.def_submodule("gpu", "What a GPU is handed, and its kernels played by the processor.");
    gpu.attr("LINEAR_ATOMS") = hw::gpu::linear_atoms;
    gpu.def("size", [](const Model &model, const Source &source, const hw::Settings &settings, bool narrow) {
        Image image(64, nullptr);
        problem_at(image, model, source, settings, narrow);
        return image.used();
    }, "model"_a, "source"_a, "settings"_a, "narrow"_a, "Bytes of a problem's arrays.");
    gpu.def("lay", [](const Model &model, const Source &source, const hw::Settings &settings, bool narrow, Int address, Bytes block) {
        Image image(address, block.data());
        return bytes_of(problem_at(image, model, source, settings, narrow));
    }, "model"_a, "source"_a, "settings"_a, "narrow"_a, "address"_a, "block"_a,
        "Lay a problem's arrays in a block that will lie at an address: the problem, as a kernel takes it.");
    gpu.def("room", [](const Model &model, const Source &source, const hw::Settings &settings) {
        return hw::gpu_room(problem_here(model, source, settings));
    }, "model"_a, "source"_a, "settings"_a, "Bytes of a replication that plays alone.");
    gpu.def("launch", [](Int first, Int size, Int start, Int length, Int room, Int state, Int seen, Int rounds, Int roots, Int roots_size, Int out) {
        return bytes_of(Launch{first, size, start, length, room, reinterpret_cast<void *>(state), reinterpret_cast<hw::Word *>(seen),
                               reinterpret_cast<void *>(rounds), reinterpret_cast<double *>(roots), roots_size, reinterpret_cast<void *>(out)});
    }, nb::kw_only(), "first"_a, "size"_a, "start"_a, "length"_a, "room"_a, "state"_a, "seen"_a, "rounds"_a, "roots"_a, "roots_size"_a, "out"_a,
        "Which rounds to play, and the addresses of what changes, as a kernel takes it.");
    gpu.def("emulate", [](Int kind, Int arms, Int atoms, Int members, bool filtered, bool single, bool narrow, nb::bytes problem, nb::bytes launch) {
        const auto given = from_bytes<Problem>(problem);
        const auto rounds = from_bytes<Launch>(launch);
        nb::gil_scoped_release free;
        return hw::emulate_gpu({kind, arms, atoms, members, filtered, single, narrow}, given, rounds);
    }, nb::kw_only(), "kind"_a, "arms"_a, "atoms"_a, "members"_a, "filtered"_a, "single"_a, "narrow"_a, "problem"_a, "launch"_a,
        "Play a launch here. False where that kind of kernel was not compiled in.");
}

}  // namespace glue
