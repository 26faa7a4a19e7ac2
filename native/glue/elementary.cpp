#include "../builds/elementary.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "builds.h"
#include "parts.h"

namespace {
using namespace glue;

using Fresh = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

const hw::OverArray &function_of(const hw::Elementary &build, const std::string &name) {
    for (const hw::OverArray &one : build.functions)
        if (name == one.name) return one;
    throw nb::value_error(("name: got " + name + "; expected a function of native/builds/elementary.cpp").c_str());
}

// Of the widest build, or of the one asked for.
const hw::Elementary &build_of(const std::string &asked) {
    const auto known = HW_RUNNABLE(elementary);
    if (asked.empty()) return *known.back();
    for (const hw::Elementary *one : known)
        if (asked == one->build) return *one;
    throw nb::value_error(("build: got " + asked + "; expected one of builds()").c_str());
}

// name(x), in the packs of a build, or one by one where the build is "scalar" or ends in " scalar".
Fresh elementary(const std::string &name, Known<double, 1> x, const std::optional<std::string> &build) {
    std::string asked = build.value_or("");
    const std::string suffix = "scalar";
    const bool one_by_one = asked.ends_with(suffix);
    if (one_by_one) asked = asked == suffix ? "baseline" : asked.substr(0, asked.size() - suffix.size() - 1);
    const hw::OverArray &function = function_of(build_of(asked), name);
    auto *const y = new double[x.size()];
    const nb::capsule owner(y, [](void *p) noexcept { delete[] static_cast<double *>(p); });
    (one_by_one ? function.doubles : function.packs)(x.data(), y, view(x).size);
    return Fresh(y, {x.size()}, owner);
}
}  // namespace

void glue::bind_elementary(nb::module_ &m) {
    m.def("elementary", &elementary, nb::arg("name"), nb::arg("x"), nb::arg("build") = nb::none());
}
