#include "../draws.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "../engines/rounds.h"
#include "learning.h"
#include "parts.h"

using hw::Int;
using hw::Long;

void glue::bind_draws(nb::module_ &m) {
    m.def(
        "philox",
        [](Long a, Long b, Long c, Long d, hw::Word low, hw::Word high) {
            const auto x = hw::philox(hw::Words<Long>{a, b, c, d}, hw::Key{low, high});
            return std::tuple(x.a, x.b, x.c, x.d);
        },
        nb::arg("c0"), nb::arg("c1"), nb::arg("c2"), nb::arg("c3"), nb::arg("k0"), nb::arg("k1"));
    m.def(
        "uniforms",
        [](Long seed, Int replication, Int block, Int purpose, Int lane) {
            const Long what = static_cast<Long>(purpose);
            const auto u = hw::uniforms(hw::Key::of(seed), replication, block, what, lane);
            return std::pair(u.one, u.two);
        },
        nb::kw_only(), nb::arg("seed"), nb::arg("replication"), nb::arg("block"), nb::arg("purpose"),
        nb::arg("lane"));
    m.def("to_open_unit", [](Long u) { return hw::to_open_unit(u); }, nb::arg("u"));
    m.def(
        "draw_rounds",
        [](Known<std::int64_t, 1> thresholds, Known<std::int64_t, 1> guide, Long seed, Int replication, Int count) {
            const hw::Source source{view(thresholds), view(guide), {}, {}};
            const Int shift = hw::guide_shift(source);
            return array_of<std::int64_t>(count, [&](Int t) {
                const auto u = hw::uniforms(hw::Key::of(seed), replication, t / 2, hw::purpose::latent, Int(0));
                return hw::atom_of(source, shift, static_cast<Int>(t % 2 == 0 ? u.one : u.two));
            });
        },
        nb::arg("thresholds"), nb::arg("guide"), nb::kw_only(), nb::arg("seed"), nb::arg("replication"), nb::arg("count"),
        "The atoms of a replication's first rounds.");
    m.def(
        "draw_rewards",
        [](Long seed, Int replication, Int count) {
            return array_of<std::int64_t>(count, [&](Int t) {
                return static_cast<Int>(hw::uniforms(hw::Key::of(seed), replication, t + 1, hw::purpose::reward, Int(0)).one);
            });
        },
        nb::kw_only(), nb::arg("seed"), nb::arg("replication"), nb::arg("count"),
        "The uniforms that decide random rewards in a replication's first rounds.");
    nb::dict purposes;
    purposes["latent"] = hw::purpose::latent;
    purposes["normal"] = hw::purpose::normal;
    purposes["reward"] = hw::purpose::reward;
    purposes["binarise"] = hw::purpose::binarise;
    purposes["beta_success"] = hw::purpose::beta_success;
    purposes["beta_failure"] = hw::purpose::beta_failure;
    purposes["walk"] = hw::purpose::walk;
    purposes["leap"] = hw::purpose::leap;
    purposes["traffic"] = hw::purpose::traffic;
    purposes["choice"] = hw::purpose::choice;
    m.attr("purposes") = purposes;
}
