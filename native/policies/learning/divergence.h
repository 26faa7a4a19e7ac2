// What a measure Q over X lets pulls of each arm tell from p: mass * KL(A_k p || A_k Q / mass), its slopes
// and its bend.
#pragma once
#include "../../elementary.h"
#include "../../portable.h"

namespace hw {
inline namespace HW_BUILD {

// Rows of the channels of some arms, and how likely each is under p.
struct ChannelRows {
    Ints begin;      // (N + 1,) row i is paid at the atoms atom[begin[i]], ..., in ascending order
    Ints atom;       // (entries,)
    Doubles chance;  // (entries,) with these probabilities
    Ints owner;      // (N,) whose row it is, ascending
    Doubles law;     // (N,) A p

    HW_DEVICE void lay(Arena &arena, Int rows, Int entries) {
        begin = arena.view<Int>(rows + 1);
        atom = arena.view<Int>(entries);
        chance = arena.view<double>(entries);
        owner = arena.view<Int>(rows);
        law = arena.view<double>(rows);
    }
};

// How a measure looks through the rows.
struct Seen {
    Doubles pay;    // (N,) A Q
    Doubles apart;  // (N,) pay / (mass A p) - 1
    Doubles log;    // (N,) log(1 + apart)
    double mass;
};

// Fills `pay`, given the mass. O(nnz).
HW_DEVICE inline void look(const ChannelRows &rows, Doubles q, const Seen &seen) {
    for (Int i = 0; i < rows.law.size; ++i) {
        double total = 0.0;
        const Int first = rows.begin[i], last = rows.begin[i + 1];
        if (last - first == q.size)
            for (Int x = 0; x < q.size; ++x) total += rows.chance[first + x] * q[x];
        else
            for (Int e = first; e < last; ++e) total += rows.chance[e] * q[rows.atom[e]];
        seen.pay[i] = total;
    }
}

// Fills `apart` and `log`, and adds mass * KL(A_k p || A_k Q / mass) to used[k]: a (t - log(1 + t)) with t
// = pay / a - 1, exact also where A_k Q is nearly a = mass A_k p. O(N).
HW_DEVICE inline void add_divergence(const ChannelRows &rows, const Seen &seen, Doubles used) {
    for (Int i = 0; i < rows.law.size; ++i) {
        const double a = seen.mass * rows.law[i], pay = seen.pay[i];
        if (!(a > 0.0)) {
            seen.apart[i] = infinity;
            seen.log[i] = 0.0;
            used[rows.owner[i]] += pay;
            continue;
        }
        const double t = (pay - a) / a, log = t > -0.5 ? hw::log1p(t) : hw::log(pay / a);
        seen.apart[i] = t;
        seen.log[i] = log;
        used[rows.owner[i]] += a * (t - log);
    }
}

// out(x, k) becomes the derivative of G_k by Q[x], times Q[x]: the sum over rows i of (1 - b_i) A_ix - (A
// p)_i log(1 / b_i), b_i = mass (A p)_i / (A Q)_i. O(nnz + J K).
HW_DEVICE inline void slopes(const ChannelRows &rows, const Seen &seen, Doubles q, Doubles level, Table out) {
    fill(out.flat(), 0.0);
    fill(level, 0.0);
    for (Int i = 0; i < rows.law.size; ++i) {
        const Int k = rows.owner[i];
        const double t = seen.apart[i], slope = t < infinity ? t / (1.0 + t) : 1.0;
        level[k] += rows.law[i] * seen.log[i];
        const Int last = rows.begin[i + 1];
        for (Int e = rows.begin[i]; e < last; ++e) out(rows.atom[e], k) += slope * rows.chance[e];
    }
    for (Int x = 0; x < q.size; ++x)
        for (Int k = 0; k < level.size; ++k) out(x, k) = (out(x, k) - level[k]) * q[x];
}

// The barrier's second derivative within a face, relative to Q, lower half of (J, J): 1 + Q Q' sum_k
// weight_k (G_k)''. Of G_k it is the sum over rows of x x' / (mass (A p)_i) with x = (A p)_i - b_i A_i,
// multiplied out to use zeros of A. `e` (J,) is scratch. O(J^2) and the square of each row's atoms.
HW_DEVICE inline void curvature(const ChannelRows &rows, const Seen &seen, Doubles weight, Doubles q,
                                Doubles e, Table out) {
    double base = 0.0;
    for (const double each : weight) base += each;
    fill(e, 0.0);
    for (Int x = 0; x < q.size; ++x) fill(out[x].first(x + 1), 0.0);
    for (Int i = 0; i < rows.law.size; ++i) {
        if (!(rows.law[i] > 0.0)) continue;
        const double share = seen.mass * rows.law[i] / seen.pay[i];
        const double by = share * weight[rows.owner[i]], square = by * share / rows.law[i];
        const Int first = rows.begin[i], size = rows.begin[i + 1] - first;
        const bool everywhere = size == q.size;
        for (Int u = 0; u < size; ++u) {
            const Int x = rows.atom[first + u];
            const double a = rows.chance[first + u], scaled = a * square;
            e[x] += by * a;
            const Doubles row = out[x];
            if (everywhere)
                for (Int y = 0; y <= x; ++y) row[y] += scaled * rows.chance[first + y];
            else
                for (Int v = 0; v <= u; ++v) row[rows.atom[first + v]] += scaled * rows.chance[first + v];
        }
    }
    for (Int x = 0; x < q.size; ++x) {
        const double along = q[x] / seen.mass;
        for (Int y = 0; y <= x; ++y) out(x, y) = (out(x, y) + base - e[x] - e[y]) * along * q[y];
        out(x, x) += 1.0;
    }
}

}  // namespace HW_BUILD
}  // namespace hw
