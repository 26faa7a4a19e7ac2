// What the exploration rates at a law of X depend on: who is best under it, what pulls of the others tell,
// and what a law must meet that the best arms cannot tell from it.
#pragma once
#include "channel_view.h"
#include "confusing_faces.h"
#include "divergence.h"

namespace hw {
inline namespace HW_BUILD {

// Arms whose means differ by less than this part of the range of all rewards are best together.
inline constexpr double TIED = 1e-9;
// The part of the uniform law that a law is mixed with.
inline constexpr double MIXED = 1e-9;

// The best of all; level with it; not best; not best, but able to draw level.
enum class ArmStanding : int { BEST, LEVEL, OTHER, RIVAL };

HW_INLINE bool is_best(ArmStanding each) { return each == ArmStanding::BEST || each == ArmStanding::LEVEL; }

// Laid out for K arms, J points and N rows; each law takes of that what it needs.
struct RatesProblem {
    Int arms, points, most_rows, entries;

    View<ArmStanding> standing;  // (K,)
    Int best, others;         // the best arm; how many are not level with it
    Doubles inner;            // (J,) the law, mixed into the inside
    ChannelRows rows;         // of the arms that are not best, numbered from 0, as far as some law pays them
    Table equations;          // (J, w) what every confusing law meets: `count` columns, and room for one more
    Int count;

    HW_INLINE explicit RatesProblem(const ChannelView &channels)
        : arms(channels.arms()), points(channels.atoms()), most_rows(channels.offset[channels.arms()]),
          entries(channels.row.size), best(0), others(0), count(0) {}

    // O(N J + J^2 + K).
    HW_DEVICE void lay(Arena &arena) {
        standing = arena.view<ArmStanding>(arms);
        lay_each(arena, points, inner);
        rows.lay(arena, most_rows, entries);
        lay_tables(arena, points, padded(points), equations);
        lay_tables(arena, most_rows, points, known_, spare_);
        lay_each(arena, most_rows, left_, place_);
    }

    // Every arm's `gap` (K,) under p, and which are best.
    HW_DEVICE void compare(KnownTable g, KnownDoubles p, Doubles gap) {
        mix(p);
        double low = infinity, high = -infinity;
        for (Int i = 0; i < g.size(); ++i) low = min(low, g.data[i]), high = max(high, g.data[i]);
        for (Int k = 0; k < arms; ++k) gap[k] = dot(g[k], inner, points);
        const double most = largest(gap);
        best = 0;
        for (Int k = 0; k < arms; ++k) {
            gap[k] = most - gap[k];
            standing[k] = gap[k] <= TIED * (high - low) ? ArmStanding::LEVEL : ArmStanding::OTHER;
            if (gap[k] < gap[best]) best = k;
        }
        standing[best] = ArmStanding::BEST;
        others = 0;
        for (const ArmStanding each : standing) others += each == ArmStanding::OTHER ? 1 : 0;
    }

    // The rows of the others' channels, and the equations. O(nnz + J w) and those of `independent`.
    HW_DEVICE void lay_out(const ChannelView &channels) {
        weigh_rows(channels);
        const Int known = place_rows(channels);
        for (Int x = 0; x < points; ++x)
            for (Int e = channels.start[x]; e < channels.start[x + 1]; ++e) {
                Int &at = place_[channels.row[e]];
                if (at < 0) {
                    known_(-1 - at, x) = channels.weight[e];
                } else if (at < entries) {
                    rows.atom[at] = x;
                    rows.chance[at++] = channels.weight[e];
                }
            }
        equations.columns = padded(points);
        fill(equations.flat(), 0.0);
        count = independent({known_.data, known, points}, inner, spare_, left_, equations);
        const Int wide = padded(count + 1);
        for (Int x = 0; x < points; ++x)
            for (Int i = 0; i < wide; ++i) equations.data[x * wide + i] = equations(x, i);
        equations.columns = wide;
    }

  private:
    HW_DEVICE void mix(KnownDoubles p) {
        const double size = static_cast<double>(points);
        double mass = 0.0;
        for (Int x = 0; x < points; ++x) mass += inner[x] = max(p[x], 0.0);
        for (double &value : inner) value = (1.0 - MIXED) * (value / mass) + MIXED / size;
    }

    // How likely every row is, and how many entries it has, in `place`.
    HW_DEVICE void weigh_rows(const ChannelView &channels) {
        rows.law.size = most_rows;
        fill(rows.law, 0.0);
        fill(place_, Int{0});
        for (Int x = 0; x < points; ++x)
            for (Int e = channels.start[x]; e < channels.start[x + 1]; ++e) {
                rows.law[channels.row[e]] += channels.weight[e] * inner[x];
                ++place_[channels.row[e]];
            }
    }

    // Where the entries of each row go: below 0 among the best arms' rows, from `entries` on nowhere. How
    // many rows those are.
    HW_DEVICE Int place_rows(const ChannelView &channels) {
        Int kept = 0, known = 0, number = 0;
        rows.begin[0] = 0;
        for (Int k = 0; k < arms; ++k) {
            for (Int i = channels.offset[k]; i < channels.offset[k + 1]; ++i) {
                const Int each = place_[i];
                if (is_best(standing[k])) {
                    fill(known_[known], 0.0);
                    place_[i] = -1 - known++;
                } else if (rows.law[i] > 0.0) {
                    rows.begin[kept + 1] = rows.begin[kept] + each;
                    rows.law[kept] = rows.law[i];
                    rows.owner[kept] = number;
                    place_[i] = rows.begin[kept++];
                } else {
                    place_[i] = entries;
                }
            }
            if (!is_best(standing[k])) ++number;
        }
        rows.law.size = kept;
        return known;
    }

    Table known_, spare_;  // (N, J) the best arms' rows, to choose equations from
    Doubles left_;         // (N,) what is left of each of those
    Ints place_;           // (N,)
};

}  // namespace HW_BUILD
}  // namespace hw
