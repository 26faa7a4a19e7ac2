// What the parts on learning the law of X share: the channels as Python hands them over, and arrays handed
// back.
#pragma once
#include <algorithm>

#include "../policies/learning/channel_view.h"
#include "arrays.h"

namespace glue {

// A new array of Python with these entries.
template <class Out, class Get> nb::object array_of(Int size, Get get) {
    Out *const data = new Out[static_cast<std::size_t>(size)];
    nb::capsule owner(data, [](void *at) noexcept { delete[] static_cast<Out *>(at); });
    for (Int i = 0; i < size; ++i) data[i] = get(i);
    return nb::cast(nb::ndarray<nb::numpy, Out, nb::ndim<1>>(data, {static_cast<std::size_t>(size)}, owner));
}
inline nb::object array_of(hw::KnownDoubles x) {
    return array_of<double>(x.size, [&](Int i) { return x[i]; });
}

// The channels, with what keeps their arrays alive.
struct Channels {
    hw::ChannelView view;
    nb::dict arrays;
};

}  // namespace glue
