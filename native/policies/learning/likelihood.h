// Which laws of X the counts allow: the maximum of their likelihood, tilted towards one arm or not, on the
// simplex.
//
// Row i of the channels was seen n_i times, N in all. With z = A p,
//
//     L(p) = sum_i n_i log z_i,    Phi_theta(p) = L(p) + theta g.p .
//
// theta = 0 gives the law of X that explains the counts best; as theta grows, its maximiser walks along the
// laws with the largest g.p among all that are at least as likely. With gamma the gradient of Phi_theta at p,
// no law is better than p by more than max_j gamma_j - gamma.p, which certifies a solution whatever way it
// was found.
//
// Sequential quadratic programming: the quadratic model of Phi_theta at p is maximised over the simplex by an
// active set of atoms (the solution uses few), then a line search. Self-concordance makes that converge from
// anywhere, quadratically in the end. A step costs O(J + entries + |S|^2 c + |S|^3), S the atoms in use and c
// the entries of a column: K for deterministic arms.
#pragma once
#include "quadratic.h"

namespace hw {

// How often each row was seen, (R,): `seen` lists the rows where that is not 0, ascending.
struct Counts {
    KnownDoubles n;
    View<const int> seen;
    double total = 0.0;
};

// A law of X, (J,), and how likely each row is under it, z = A p (R,).
struct Law {
    Doubles p, z;
};

// Where to tilt: theta towards g (J,).
struct Tilt {
    KnownDoubles g;
    double theta = 0.0;
};

inline namespace HW_BUILD {

// Counts without a list of what was seen: it is made in the room, where it stays until the next ones are.
HW_DEVICE inline Counts counts_of(KnownDoubles n, Room &room) {
    Int size = 0;
    double total = 0.0;
    for (Int i = 0; i < n.size; ++i) {
        total += n[i];
        if (n[i] > 0.0) room.seen[size++] = static_cast<int>(i);
    }
    return {n, room.seen.first(size), total};
}

// sum n log z over the rows that were seen; -inf where one of them is impossible.
HW_DEVICE inline double log_likelihood(const Counts &counts, KnownDoubles z) {
    double total = 0.0;
    for (const int i : counts.seen) {
        if (z[i] <= 0.0) return -infinity;
        total += counts.n[i] * log(z[i]);
    }
    return total;
}

// The atom at which row i is likeliest.
HW_DEVICE inline Int likeliest_atom(const ChannelView &view, Int i) {
    Int likely = 0;
    double most = -1.0;
    for (Int e = view.begin[i]; e < view.begin[i + 1]; ++e) {
        if (view.chance[e] > most) likely = view.atom[e], most = view.chance[e];
    }
    return likely;
}

// Make every row that was seen possible: give some mass to the likeliest atom of each that is not. Leaves z =
// A p. Few atoms, not all: a law that uses few stays cheap to improve. Lists p's atoms. Returns whether p was
// changed.
HW_DEVICE inline bool spread(const ChannelView &view, Room &room, const Counts &counts, Law law) {
    list_used(room, law.p);
    through_used(view, room, law.p, law.z);
    Int missing = 0;
    for (const int i : counts.seen) missing += law.z[i] > 1e-13 ? 0 : 1;
    if (missing == 0) return false;
    for (double &mass : law.p) mass *= 0.9;
    for (const int i : counts.seen) {
        if (!(law.z[i] > 1e-13)) law.p[likeliest_atom(view, i)] += 0.1 / static_cast<double>(missing);
    }
    list_used(room, law.p);
    through_used(view, room, law.p, law.z);
    return true;
}

// theta g + A'y, what each atom is worth at prices y (R,), into out (J,); returns the largest. O(entries).
HW_DEVICE inline double worth(const ChannelView &view, Room &room, KnownDoubles y, Tilt tilt, Doubles out) {
    double *__restrict to = out.data;
    const double *__restrict g = tilt.g.data;
    for (Int j = 0; j < out.size; ++j) to[j] = tilt.theta * g[j];
    back(view, room, y, out);
    double a = -infinity, b = a, c = a, d = a;
    Int j = 0;
    for (; j + 3 < out.size; j += 4) {
        a = max(a, to[j]), b = max(b, to[j + 1]);
        c = max(c, to[j + 2]), d = max(d, to[j + 3]);
    }
    for (; j < out.size; ++j) a = max(a, to[j]);
    return max(max(a, b), max(c, d));
}

struct Slope {
    double most, mean;
};

// The gradient at p, into `room.gradient`; the curvature of each row, into `room.bend`, and its price, into
// `room.prices`. Returns the gradient's largest entry and its mean under p.
HW_DEVICE inline Slope slope(const ChannelView &view, Room &room, const Counts &counts, Tilt tilt, Law law) {
    fill(room.prices, 0.0), fill(room.bend, 0.0);
    for (const int i : counts.seen) {
        const double price = counts.n[i] / law.z[i];
        room.prices[i] = price;
        room.bend[i] = price / law.z[i];
    }
    const double most = worth(view, room, room.prices, tilt, room.gradient);
    return {most, mean_under(room, law.p, room.gradient)};
}

// p += part d, on the simplex whatever rounding does, and z = A p, given d in `room.step` and A d in
// `room.change`.
HW_DEVICE inline void move(const ChannelView &view, Room &room, const Counts &counts, double part, Law law) {
    KnownDoubles d = room.step;
    double mass = 0.0;
    for_used(room, d, [&](Int j) {
        law.p[j] = max(law.p[j] + part * d[j], 0.0);
        if (law.p[j] < 1e-15 && d[j] < 0.0) law.p[j] = 0.0;
    });
    for_used(room, law.p, [&](Int j) { mass += law.p[j]; });
    for_used(room, law.p, [&](Int j) { law.p[j] /= mass; });
    double *__restrict z = law.z.data;
    const double *__restrict change = room.change.data;
    for (Int i = 0; i < law.z.size; ++i) z[i] = max(z[i] + part * change[i], 0.0) / mass;
    bool possible = true;
    for (const int i : counts.seen) possible &= z[i] > 1e-9;
    if (!possible) spread(view, room, counts, law);  // small differences: better counted anew
}

// How far to go along `room.step`, which the quadratic model says gains `rise` and the tilt `tilted`.
HW_DEVICE inline double search_line(const Room &room, const Counts &counts, double theta, double rise,
                                    double tilted, Law law) {
    KnownDoubles change = room.change;
    double part = 1.0;
    for (const int i : counts.seen) {  // keep every row that was seen well away from impossible
        if (change[i] < -0.95 * law.z[i]) part = min(part, -0.95 * law.z[i] / change[i]);
    }
    for (Int turn = 0; turn < 40; ++turn) {
        double gain = part * tilted;
        for (const int i : counts.seen) {
            if (change[i] != 0.0) gain += counts.n[i] * log1p(part * change[i] / law.z[i]);
        }
        if (gain >= 0.1 * part * rise || part * rise <= 1e-13 * (counts.total + theta)) break;
        part *= 0.5;
    }
    return part;
}

// One step of sequential quadratic programming from p, whose gradient, of that `mean`, `slope` has left.
// Returns what `best_step` does; `room.prices` become n / z as the quadratic model moves them.
HW_DEVICE inline Int ascend(const ChannelView &view, Room &room, const Counts &counts, Tilt tilt,
                            double mean, Law law) {
    const Int size = quadratic::best_step(view, room, law.p, mean, room.bend);
    KnownDoubles d = room.step;
    double rise = 0.0, tilted = 0.0;
    for_used(room, d, [&](Int j) {
        rise += (room.gradient[j] - mean) * d[j];
        tilted += tilt.theta * tilt.g[j] * d[j];
    });
    const double part = search_line(room, counts, tilt.theta, rise, tilted, law);
    for (const int i : counts.seen) room.prices[i] = counts.n[i] / law.z[i] - room.bend[i] * room.change[i];
    move(view, room, counts, part, law);
    return size;
}

// Maximise L(p) + theta g.p from p, in place; leaves z = A p and the gradient in the room. Returns how much
// better any other law could be: at most `tolerance`, or what rounding allows.
HW_DEVICE inline double climb(const ChannelView &view, Room &room, const Counts &counts, Tilt tilt,
                              double tolerance, Law law) {
    const Int most_steps = 200;
    spread(view, room, counts, law);
    double gap = infinity;
    for (Int turn = 0; turn < most_steps; ++turn) {
        const Slope found = slope(view, room, counts, tilt, law);
        const double before = gap;
        gap = found.most - found.mean;
        const double rounding = 1e-10 * (counts.total + tilt.theta);
        if (gap <= tolerance || (gap <= rounding && gap > 0.5 * before)) return gap;
        ascend(view, room, counts, tilt, found.mean, law);
    }
    return gap;
}

// How fast g.p grows with theta at a maximiser p, its atoms listed: g' H^-1 g within the simplex, on the
// atoms that p uses.
HW_DEVICE inline double tilt_slope(const ChannelView &view, Room &room, const Counts &counts,
                                   KnownDoubles g, Law law) {
    fill(room.bend, 0.0);
    for (const int i : counts.seen) room.bend[i] = counts.n[i] / (law.z[i] * law.z[i]);
    const double middle = mean_under(room, law.p, g);
    const quadratic::Active active = quadratic::start(view, room, law.p, room.bend);
    return quadratic::tilt(room, active.size, g, middle);
}

// What is sought: a likelihood delta below the best, by a tilt of at most `limit`.
struct Drop {
    double delta, best, limit;
};

// One step towards the largest g.p among laws whose likelihood is at most delta below the best.
//
// p and theta move together: a step of `climb` at theta, then along the path of maximisers to the theta at
// which the likelihood should be right, by Newton's method on the square root of its drop, which is nearly
// linear in theta. Wants z = A p, every seen row possible, and what `slope` leaves; leaves z. Returns theta.
//
// `room.prices` become the prices that go with it: not n / z at the new p, under which atoms that p does not
// use may well be worth more than those it does, but what the quadratic model makes of the old n / z. In that
// model no atom is worth more than those in use; and the two prices differ by a factor of 1 - r^2 only, r the
// relative change of z, so that a bound which rests on them is off by the sum of n r^4 / 2.
HW_DEVICE inline double approach(const ChannelView &view, Room &room, const Counts &counts, Tilt tilt,
                                 Drop drop, Law law) {
    const double least = 0.2;  // the least part of n / z that a price moved by the quadratic model may become
    double theta = tilt.theta;
    const Int size = ascend(view, room, counts, tilt, mean_under(room, law.p, room.gradient), law);
    if (size > 0) {
        const double pace = theta * quadratic::tilt(room, size, tilt.g, mean_under(room, law.p, tilt.g));
        const double root = sqrt(max(drop.best - log_likelihood(counts, law.z), 0.0));
        double further = 30.0 * theta;
        if (pace > 0.0 && root > 0.0) further = theta + 2.0 * root * (sqrt(drop.delta) - root) / pace;
        further = min(min(max(further, theta / 30.0), 30.0 * theta), drop.limit);
        Doubles d = room.step;
        fill(d, 0.0);
        for (Int a = 0; a < size; ++a) d[room.active[a]] = (further - theta) * room.u[a];
        double part = 1.0;
        for_used(room, d, [&](Int j) {
            if (d[j] < -law.p[j]) part = min(part, law.p[j] / -d[j]);
        });
        through_used(view, room, d, room.change);
        KnownDoubles change = room.change;
        for (const int i : counts.seen) {
            if (part * change[i] < -0.5 * law.z[i]) part = -0.5 * law.z[i] / change[i];
        }
        for (const int i : counts.seen) room.prices[i] -= room.bend[i] * change[i];
        move(view, room, counts, part, law);
        theta = further;
    }
    for (const int i : counts.seen) room.prices[i] = max(room.prices[i], least * counts.n[i] / law.z[i]);
    return theta;
}

}  // namespace HW_BUILD
}  // namespace hw
