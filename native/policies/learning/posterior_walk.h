// Draws from the posterior of p, the law of X on J atoms: a walk along the lines of posterior_geometry.h.
//
// Slices on a line. Along q + s d a point is drawn by slice sampling (Neal 2003): a bracket of fixed width
// placed at random, cut at the simplex, shrunk until a point is accepted. Below alpha = 1/2, where most of
// the mass may sit in a few spikes, every other step moves mass between two groups at random. With alpha at
// 0.1 and less the chain is still right, but slow.
#pragma once
#include "gamma_draws.h"
#include "posterior_line.h"

namespace hw {
inline namespace HW_BUILD {
namespace posterior {

inline constexpr double width = 10.0;  // of a bracket, in units of the conditional standard deviation
inline constexpr Int shrinks = 200;    // each halves the bracket or better on average: never met
inline constexpr double sparse = 0.5;  // below this alpha, every other step goes from spike to spike

// One draw along a line: q and z move. O(G + R), about one logarithm.
//
// Where a bracket shrinks to does not depend on whether its tries are inside: four of them are judged
// together.
HW_DEVICE inline void move(const PosteriorGeometry &geometry, const Line &line, WalkDraws &draws) {
    draws.want(3);
    const Chord chord = chord_of(geometry, line);
    const Spike spike(chord);
    const Rise rise = rise_along(geometry, line, chord);
    const double draw = draws.unit(0), from = -width * draws.unit(1);
    double left = max(from, chord.low), right = min(from + width, chord.high), now = 0.0;
    if (chord.spiky) {
        const double low = chord.low, high = chord.high, length = chord.length;
        const auto y_of = [&](Few s) { return spike.y_of((s - low) / length, (high - s) / length); };
        if constexpr (few == 4) {
            const Few y = y_of(with_lane(with_lane(Few(right), 0, 0.0), 1, left));
            now = lane(y, 0);
            left = lane(y, 1);
            right = lane(y, 2);
        } else {
            now = lane(y_of(0.0), 0);
            if constexpr (few == 2) {
                const Few y = y_of(with_lane(Few(right), 0, left));
                left = lane(y, 0);
                right = lane(y, 1);
            } else {
                left = lane(y_of(left), 0);
                right = lane(y_of(right), 0);
            }
        }
    }
    const Slice slice(geometry.chain, chord, spike, rise, draw, now);
    draws.skip(1);
    constexpr Int together = 4;
    Few lower = left, upper = right;
    for (Int shrink = 0; shrink < shrinks; shrink += together) {
        draws.want(2);
        double s[together], x[together], rest[together], y_at[together];
        Word inside = 0, open = 0;
        for (Int i = 0; i < together; i += few) {
            Few ys = 0.0;
            for (Int l = 0; l < few; ++l) {
                const Few y = lower + (upper - lower) * Few(draws.unit(i + l));
                const Mask<Few> below = y < Few(now);
                lower = pick(below, y, lower);
                upper = pick(below, upper, y);
                ys = with_lane(ys, l, lane(y, 0));
            }
            const Try<Few> at = try_at(chord, spike, ys);
            const Word judged = slice.judge(geometry.chain, chord, spike, rise, ys, at);
            inside |= (judged & ((1u << few) - 1)) << i;
            open |= (judged >> few) << i;
            store(s + i, at.s);
            store(x + i, at.x);
            store(rest + i, at.rest);
            store(y_at + i, ys);
        }
        for (Word maybe = inside | open; maybe != 0; maybe &= maybe - 1) {
            const Int i = __builtin_ctz(maybe);
            if ((open >> i & 1) != 0 && !slice.settle(geometry, line, chord, y_at[i])) continue;
            draws.skip(i / 2 + 1);
            if (s[i] != 0.0) go(geometry, line, chord, s[i], x[i], rest[i]);
            return;
        }
        draws.skip(together / 2);
    }
}

// The line that moves mass from group h to group g, all they hold being one unit. O(G + R).
HW_DEVICE inline Line pair(const PosteriorGeometry &geometry, Int g, Int h) {
    const GroupColumns &b = geometry.columns;
    const Int spare = geometry.groups - 1;
    const Doubles d = geometry.directions[spare], slope = geometry.slopes[spare];
    fill(d, 0.0);
    fill(slope, 0.0);
    d[g] = geometry.chain.q[g] + geometry.chain.q[h];  // the same all along the line
    d[h] = -d[g];
    for (Int side = 0; side < 2; ++side) {
        const Int one = side == 0 ? g : h;
        for (Int e = b.start[one]; e < b.start[one + 1]; ++e) slope[b.row[e]] += b.weight[e] * d[one];
    }
    return {d.data, slope.data};
}

// The logarithm of a draw from a gamma law of shape alpha, `law` that of alpha, or of alpha + 1 where that is
// below 1.
HW_DEVICE inline double log_gamma_draw(double alpha, const GammaLaw &law, WalkDraws &draws) {
    draws.want(1);
    double one = draws.unit(0), x = -1.0;
    if (alpha == 1.0) {
        draws.skip(1);
        return log(-log(one));
    }
    while (x <= 0.0) {
        draws.want(1);
        x = law.attempt(normal_quantile(draws.unit(0)), draws.unit(1));
        draws.skip(1);
    }
    if (alpha >= 1.0) return log(x);
    draws.want(1);
    one = draws.unit(0);
    draws.skip(1);
    return log(x) + log(one) / alpha;
}

// Split every group's mass over its atoms by a fresh Dirichlet(alpha), into p (J,). O(J).
HW_DEVICE inline void share(const PosteriorGeometry &geometry, Doubles p, WalkDraws &draws) {
    const ChainRoom &chain = geometry.chain;
    for (Int g = 0; g < geometry.groups; ++g) {
        chain.top[g] = -infinity;
        chain.total[g] = 0.0;
    }
    const GammaLaw law = GammaLaw::of(geometry.alpha >= 1.0 ? geometry.alpha : geometry.alpha + 1.0);
    for (Int j = 0; j < p.size; ++j) {  // logarithms of gamma draws, into p
        const Int g = geometry.group[j];
        if (geometry.size[g] == 1) continue;
        p[j] = log_gamma_draw(geometry.alpha, law, draws);
        chain.top[g] = max(chain.top[g], p[j]);
    }
    for (Int j = 0; j < p.size; ++j) {
        const Int g = geometry.group[j];
        if (geometry.size[g] == 1) continue;
        p[j] = exp(p[j] - chain.top[g]);
        chain.total[g] += p[j];
    }
    for (Int j = 0; j < p.size; ++j) {
        const Int g = geometry.group[j];
        p[j] = geometry.size[g] == 1 ? chain.q[g] : max(chain.q[g] * (p[j] / chain.total[g]), smallest);
    }
}

// Groups' masses and rows' values of the law p, and the rows' weights, the counts n.
HW_DEVICE inline void start_at(PosteriorGeometry &geometry, KnownDoubles n, KnownDoubles p) {
    ChainRoom &chain = geometry.chain;
    double total = 0.0, weight = 0.0;
    for (Int g = 0; g < geometry.groups; ++g) chain.q[g] = 0.0;
    for (Int j = 0; j < p.size; ++j) {
        chain.q[geometry.group[j]] += p[j];
        total += p[j];
    }
    for (Int g = 0; g < geometry.groups; ++g) {
        chain.q[g] = max(chain.q[g] / total, smallest);
        weight += absolute(chain.exponent[g]);
    }
    for (Int i = 0; i < geometry.rows; ++i) {
        chain.w[i] = n[geometry.kept[i]];
        weight += chain.w[i];
    }
    values(geometry, chain.q, chain.z);
    for (Int i = 0; i < geometry.rows; ++i) chain.z[i] = max(chain.z[i], smallest);
    chain.weight = weight;
}

}  // namespace posterior

// The law at the centre, for a chain to start from; what no count tells apart shared equally.
HW_DEVICE inline void start_at_centre(const PosteriorGeometry &geometry, Doubles p) {
    for (Int j = 0; j < p.size; ++j) {
        const Int g = geometry.group[j];
        p[j] = geometry.centre[g] / static_cast<double>(geometry.size[g]);
    }
}

// About two sweeps. The mean reward of any arm is then forgotten in 1 to 2 rounds (integrated autocorrelation
// time) on the paper's problems, in 2 to 5 with 50 atoms and in 4 to 14 with 300 or 1,000.
HW_INLINE Int recommended_steps(Int atoms) { return 2 * atoms; }

// Advance the chain p (J,) by `steps` moves along a line, and draw anew the shares that no count tells apart.
// Prepares when the counts n (R,) ask for it. The same call from the same p makes the same moves. Returns the
// number of lanes used, about 2 for each step and 1 for each atom, which must stay below 2^24. O(nnz +
// steps (R + J)).
HW_DEVICE inline Int walk(PosteriorGeometry &geometry, KnownDoubles n, Int steps, const WalkStream &stream,
                          Doubles p) {
    using namespace posterior;
    if (stale(geometry, n)) prepare(geometry, n);
    start_at(geometry, n, p);
    const Int groups = geometry.groups, m = groups - 1;
    WalkDraws draws(stream, 3 * steps + 2);
    draws.want(1);
    Int k = static_cast<Int>(draws.whole().one) % max(m, Int{1});
    draws.skip(1);
    for (Int step = 0; step < (m > 0 ? steps : 0); ++step) {
        if (geometry.alpha < sparse && step % 2 == 1) {
            draws.want(1);
            const Uniforms<Long> u = draws.whole();
            draws.skip(1);
            const Int g = static_cast<Int>(u.one) % groups;
            const Int h = (g + 1 + static_cast<Int>(u.two) % m) % groups;
            move(geometry, pair(geometry, g, h), draws);
            continue;
        }
        move(geometry, {geometry.directions[k].data, geometry.slopes[k].data}, draws);
        k = k + 1 < m ? k + 1 : 0;
    }
    share(geometry, p, draws);
    return draws.position();
}

}  // namespace HW_BUILD
}  // namespace hw
