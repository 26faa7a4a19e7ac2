// The quadratic model of the tilted likelihood, maximised over the simplex by an active set of atoms: the
// solution uses few.
#pragma once
#include "factor.h"

namespace hw {
inline namespace HW_BUILD {
namespace quadratic {

// Atoms taken in or dropped in one quadratic problem, beyond four for each in use: atoms that look alike may
// take turns.
inline constexpr Int pivots = 60;
// Atoms are taken in along with the one asked for most if they are asked for this part as much.
inline constexpr double along = 0.3;

// List the atoms without mass of largest gradient, best first, `hopefuls` at most, in `room.hopeful`; returns
// how many.
HW_DEVICE inline Int list_hopefuls(Room &room, KnownDoubles p, KnownDoubles gradient) {
    int *__restrict places = room.hopeful.data;
    double *__restrict worth = room.worth.data;
    const double *const of = gradient.data;
    const Int block = 16;
    Int count = 0;
    double bar = -infinity;  // what there is to beat, once the list is full
    for (Int from = 0; from < p.size; from += block) {
        const Int to = min(from + block, p.size);
        if (count == hopefuls && to == from + block) {
            double a = of[from], b = of[from + 1], c = of[from + 2], d = of[from + 3];
            for (Int m = from + 4; m < to; m += 4) {
                a = max(a, of[m]), b = max(b, of[m + 1]);
                c = max(c, of[m + 2]), d = max(d, of[m + 3]);
            }
            if (max(max(a, b), max(c, d)) <= bar) continue;
        }
        for (Int j = from; j < to; ++j) {
            const double mine = of[j];
            if ((count == hopefuls && mine <= bar) || p[j] > 0.0) continue;
            Int at = count < hopefuls ? count : count - 1;
            count = at + 1;
            for (; at > 0 && worth[at - 1] < mine; --at) {
                places[at] = places[at - 1], worth[at] = worth[at - 1];
            }
            places[at] = static_cast<int>(j), worth[at] = mine;
            bar = worth[count - 1];
        }
    }
    return count;
}

// The atom at slot `a`, now the factor's column `kept`, loses its `mass`: what it paid goes to `room.gone`,
// and the others, the first `kept` slots and those from a + 1 on, feel it in `room.pull`. O(size^2).
HW_DEVICE inline void let_go(const ChannelView &view, Room &room, Int kept, Int a, Int size, double mass) {
    const Int j = room.active[a], columns = size - (a - kept);
    Doubles h = room.column;
    add_column(view, j, mass, room.gone);
    for (Int b = 0; b < columns; ++b) h[b] = 0.0;
    for (Int c = 0; c <= kept; ++c) {
        const double *line = room.square[c].data;
        add_scaled(h.data, line, mass * line[kept], c, columns);
    }
    for (Int b = 0; b < columns; ++b) {
        if (b != kept) room.pull[room.active[b < kept ? b : a + b - kept]] += h[b];
    }
}

// One quadratic problem while it is being solved: from p, with the gradient in `room.gradient` and its mean
// under p, which is taken off, so that errors vanish with the step. The step is left in `room.step` and what
// it changes in `room.change`.
struct Problem {
    const ChannelView &view;
    Room &room;
    KnownDoubles p;
    double mean;
    KnownDoubles bend;
    Int size = 0;           // atoms in use
    double ridge = 0.0;
    double spent = 0.0;     // mass that atoms lost which were dropped
    double level = 0.0;     // the multiplier of the sum
    Int hopeful = 0;        // how many hopefuls are listed

    // Solve on the atoms in use: where to, into `room.u`. Whether that makes sense.
    HW_DEVICE bool aim() {
        Doubles u = room.u, v = room.v;
        for (Int a = 0; a < size; ++a) u[a] = room.pull[room.active[a]], v[a] = 1.0;
        solve(room.square, size, u, v);
        double above = -spent, below = 0.0;
        for (Int a = 0; a < size; ++a) above += u[a], below += v[a];
        if (!(0.0 < below && below < infinity)) return false;
        level = above / below;
        for (Int a = 0; a < size; ++a) u[a] -= level * v[a];
        return true;
    }

    // Walk there until an atom runs out of mass. Whether one did and was dropped.
    HW_DEVICE bool walk() {
        Doubles u = room.u, d = room.step;
        double part = 1.0;
        for (Int a = 0; a < size; ++a) {
            const Int j = room.active[a];
            if (p[j] + u[a] < 0.0 && p[j] + d[j] < part * (d[j] - u[a])) part = (p[j] + d[j]) / (d[j] - u[a]);
        }
        Int kept = 0;
        for (Int a = 0; a < size; ++a) {
            const Int j = room.active[a];
            d[j] += part * (u[a] - d[j]);
            if (part < 1.0 && p[j] + u[a] < 0.0 && p[j] + d[j] <= 1e-15) {
                d[j] = -p[j];
                room.slot[j] = -1;
                if (p[j] > 0.0) {
                    spent += p[j];
                    let_go(view, room, kept, a, size, p[j]);
                }
                remove(room.square, size - (a - kept), kept);
            } else {
                room.active[kept] = static_cast<int>(j), room.slot[j] = static_cast<int>(kept);
                ++kept;
            }
        }
        const bool dropped = kept < size;
        size = kept;
        return dropped;
    }

    // Take in the atoms that the multipliers ask for most. Whether there were any.
    HW_DEVICE bool take_in() {
        Doubles z = room.weighed, worth = room.worth;
        for (Int i = 0; i < z.size; ++i) z[i] = bend[i] * room.change[i];
        const double least = 1e-12 * (absolute(mean) + 1.0);
        double most = least;
        for (Int a = 0; a < hopeful; ++a) {
            const Int j = room.hopeful[a];
            worth[a] = 0.0;
            if (room.slot[j] < 0) {
                worth[a] = room.gradient[j] - mean - level - column_dot(view, j, z);
                most = max(most, worth[a]);
            }
        }
        if (most == least) return false;
        if (spent > 0.0) {
            for (Int i = 0; i < z.size; ++i) z[i] = bend[i] * room.gone[i];
        }
        const double bar = max(along * most, least);
        for (Int a = 0; a < hopeful; ++a) {
            if (!(worth[a] >= bar && size < p.size)) continue;
            const Int j = room.hopeful[a];
            room.active[size] = static_cast<int>(j), room.slot[j] = static_cast<int>(size);
            use(room, j);
            room.pull[j] = room.gradient[j] - mean + (spent > 0.0 ? column_dot(view, j, z) : 0.0);
            ++size;
            append(view, room, size, bend, ridge);
        }
        return true;
    }
};

// Maximise gradient.d - d'Hd/2, H = A' diag(bend) A, over the steps d that stay in the simplex.
//
// Primal active set: solve on the atoms in use, walk there until one runs out of mass, drop it; when none
// does, take in the atoms that the multipliers ask for most, among the few of largest gradient: what they
// miss, the next step's gradient shows. Solved for the step, not for where it leads. Leaves d in `room.step`
// and A d in `room.change`, and returns how many atoms are in use then, their factor in the square; 0 if it
// gave up, on a step that may not be the best.
HW_DEVICE inline Int best_step(const ChannelView &view, Room &room, KnownDoubles p, double mean,
                               KnownDoubles bend) {
    Problem problem{view, room, p, mean, bend};
    const Active active = start(view, room, p, bend);
    problem.size = active.size, problem.ridge = active.ridge;
    fill(room.gone, 0.0);  // what the atoms that were dropped paid, row by row
    fill(room.step, 0.0);
    // and what their going adds
    for (const int j : room.active.first(active.size)) room.pull[j] = room.gradient[j] - mean;
    problem.hopeful = list_hopefuls(room, p, room.gradient);
    for (Int turn = 0; turn < pivots + 4 * active.size; ++turn) {
        if (!problem.aim()) break;
        if (problem.walk()) continue;
        through_used(view, room, room.step, room.change);
        if (!problem.take_in()) return problem.size;
    }
    through_used(view, room, room.step, room.change);
    return 0;
}

// Where the maximiser moves with theta, over the `size` atoms in use, into `room.u`; returns how fast g.p
// grows. Wants their factor. `middle`: what g is nearly, so that errors vanish with the rest.
HW_DEVICE inline double tilt(Room &room, Int size, KnownDoubles g, double middle) {
    Doubles u = room.u, v = room.v;
    for (Int a = 0; a < size; ++a) u[a] = g[room.active[a]] - middle, v[a] = 1.0;
    solve(room.square, size, u, v);
    double above = 0.0, below = 0.0;
    for (Int a = 0; a < size; ++a) above += u[a], below += v[a];
    const double level = above / below;
    double out = 0.0;
    for (Int a = 0; a < size; ++a) {
        u[a] -= level * v[a];
        out += (g[room.active[a]] - middle) * u[a];
    }
    return out;
}

}  // namespace quadratic
}  // namespace HW_BUILD
}  // namespace hw
