// Arrays of Python as views: shapes and types are checked here, once, with sentences that name the argument.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "../portable.h"

namespace glue {
namespace nb = nanobind;
using hw::Int;

template <class T, int Dimensions> using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
using Numbers = Array<double, 1>;
using Matrix = Array<double, 2>;
using Whole = Array<std::int64_t, 1>;
using WholeMatrix = Array<std::int64_t, 2>;
using WholeCube = Array<std::int64_t, 3>;
template <class T, int Dimensions> using Known = Array<const T, Dimensions>;

template <class T> using Element = std::conditional_t<std::is_same_v<std::remove_const_t<T>, std::int64_t>,
                                                      std::conditional_t<std::is_const_v<T>, const Int, Int>, T>;

template <class T> hw::View<Element<T>> view(const Array<T, 1> &array) {
    return {reinterpret_cast<Element<T> *>(array.data()), static_cast<Int>(array.shape(0))};
}
template <class T> hw::Grid<Element<T>> view(const Array<T, 2> &array) {
    return {reinterpret_cast<Element<T> *>(array.data()), static_cast<Int>(array.shape(0)), static_cast<Int>(array.shape(1))};
}
template <class T> hw::Cube<Element<T>> view(const Array<T, 3> &array) {
    return {reinterpret_cast<Element<T> *>(array.data()), static_cast<Int>(array.shape(0)), static_cast<Int>(array.shape(1)),
            static_cast<Int>(array.shape(2))};
}

// Refuse an array of another length: `what` names it.
inline void expect(bool right, const std::string &what, Int got, Int wanted) {
    if (!right)
        throw nb::value_error((what + ": got length " + std::to_string(got) + "; expected " + std::to_string(wanted)).c_str());
}
template <class Viewed> void expect_size(const char *what, const Viewed &x, Int wanted) {
    expect(x.size == wanted, what, x.size, wanted);
}

// Zeroed memory on a cache line's boundary; of a large block, the system gives what is used.
class Block {
  public:
    explicit Block(Int size) : size_(static_cast<std::size_t>(size)), memory_(std::calloc(size_ + line, 1)) {
        if (!memory_) throw std::bad_alloc();
    }
    Block(const Block &other) : Block(static_cast<Int>(other.size_)) { std::memcpy(start(), other.start(), size_); }
    Block &operator=(const Block &) = delete;

    void *start() const {
        auto *const memory = static_cast<unsigned char *>(memory_.get());
        return memory + (line - reinterpret_cast<std::uintptr_t>(memory) % line) % line;
    }

  private:
    static constexpr std::size_t line = 64;
    struct Free {
        void operator()(void *memory) const { std::free(memory); }
    };
    std::size_t size_;
    std::unique_ptr<void, Free> memory_;
};

// A thing that says what memory it keeps, with that memory: `thing.lay(arena)`.
template <class Thing> class Owned {
  public:
    explicit Owned(const Thing &start) : thing(start), block_(measured(thing)) { lay(); }
    // A copy has its own memory, with the same numbers in it.
    Owned(const Owned &other) : thing(other.thing), block_(other.block_) { lay(); }
    Owned &operator=(const Owned &) = delete;
    Thing thing;

  private:
    static Int measured(Thing &thing) {
        hw::Arena measure;
        thing.lay(measure);
        return measure.used();
    }
    void lay() {
        hw::Arena arena(block_.start());
        thing.lay(arena);
    }
    Block block_;
};

}  // namespace glue
