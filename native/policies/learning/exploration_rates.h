// The Graves-Lai exploration rates at an estimated law of X: what the policy graves-lai tracks.
//
// Arm k is a channel A_k, p a law of X, O the best arms under it, Delta_k the gaps. The rates solve
//
//     C = min over c >= 0 of sum over k not in O of c_k Delta_k
//     such that sum over k not in O of c_k KL(A_k p || A_k q) >= 1 for every confusing q,
//
// where q is confusing when A_k q = A_k p for the best arms and some other arm l draws level with them
// under q. In place of cutting planes: the dual is one smooth convex programme. With a measure Q_l = w_l
// q_l of mass w_l for every arm l that can draw level,
//
//     C = max over Q >= 0 of sum_l w_l
//     such that G_k(Q) = sum_l w_l KL(A_k p || A_k Q_l / w_l) <= Delta_k,
//               (A_i - (A_i p) 1') Q_l = 0 for i in O,  (g_l - g_best)' Q_l = 0.
//
// A logarithmic barrier with parameter t is minimised by a primal-dual Newton method, each step taken
// relative to Q so that entries may vanish; the faces l are coupled by the K slacks alone, so that a step
// costs O(K J^3 + K^2 J^2). Their multipliers are the rates, c_k = 1 / (t (Delta_k - G_k)) on the central
// path. They are certified whatever was rounded: f_l(Q) = sum_k c_k G_k is convex and homogeneous, so that
// with its gradient u at any Q and any multipliers lambda of the equations E, F_l(c) >= min_j (u - E'
// lambda)_j. Dividing c by the least of these makes it feasible; the masses bound its cost from below.
//
// p may lie on the simplex's edge: it is mixed with MIXED of the uniform law first, so that every law near
// it is reachable.
#pragma once
#include "rates_problem.h"

namespace hw {
inline namespace HW_BUILD {

// What became of the rates: they are optimal; no arm needs to be explored, they are 0; or rounding got in
// the way.
enum class Rates : int { SOLVED, NOTHING, STALLED };

// The relative gap between certified rates and the bound below them at which the barrier stops; t rises to
// CENTRED.
inline constexpr double ACCURACY = 5e-4;
inline constexpr double CENTRED = 2e-4;

// A measure on every face, and how much of the gaps it leaves.
struct Measures {
    Table q;                 // (L, J)
    Table pay, apart, log;   // (L, N) how each looks through the rows
    Doubles mass;            // (L,)
    Doubles slack;           // (L,) gap - G(Q), by arm

    HW_DEVICE void lay(Arena &arena, Int arms, Int points, Int rows) {
        lay_tables(arena, arms, points, q);
        lay_tables(arena, arms, rows, pay, apart, log);
        lay_each(arena, arms, mass, slack);
    }
    // Of the room, what L arms with N rows need.
    HW_DEVICE void narrow(Int others, Int rows) {
        pay.columns = apart.columns = log.columns = rows;
        slack.size = others;
    }
    HW_INLINE Seen seen(Int f) const { return {pay[f], apart[f], log[f], mass[f]}; }
};

// The programme at one law, and what is worked on. L arms are not best, numbered from 0; on some of their
// faces they can draw level. Laid out for K arms, J points and N rows; each solve takes of that what it
// needs.
class RatesProgramme {
  public:
    HW_INLINE explicit RatesProgramme(const ChannelView &channels)
        : problem_(channels), arms_(channels.arms()), points_(channels.atoms()) {}

    // O(K N + K^2 + K J + N J + J^2), K J times K more for the faces' slopes.
    HW_DEVICE void lay(Arena &arena) {
        const Int wide = padded(arms_), rows = problem_.most_rows;
        problem_.lay(arena);
        room_.lay(arena, points_);
        here_.lay(arena, arms_, points_, rows);
        trial_.lay(arena, arms_, points_, rows);
        further_.lay(arena, arms_, points_, rows);
        system_.lay(arena, arms_);
        lay_tables(arena, arms_, points_, h_, step_);
        lay_tables(arena, wide, wide, crossed_);
        lay_tables(arena, points_, wide, multiplier_);
        lay_each(arena, arms_, gap_, bend_, rate_, cheapest_, dual_, level_);
        lay_each(arena, wide, mixing_);
        slope_ = arena.cube<double>(arms_, points_, wide);
        solved_ = arena.cube<double>(arms_, points_, wide);
        held_ = arena.cube<double>(arms_, points_, wide);
    }

    // Fill `c` (K,) with the optimal exploration rates at the law `p` (J,), 0 for the best arms.
    //
    // SOLVED: c is feasible and costs at most ACCURACY more than the least. NOTHING: no law is confusing
    // (or all arms are best), c = 0. STALLED: rounding got in the way (tiny gaps); c is then the cheapest
    // that was certified feasible or, where there was none, a rule of thumb: (range of the arm's means)^2 /
    // (2 gap^2) for every arm that some confusing law favours.
    //
    // A function of its arguments alone: nothing is carried from call to call. About 20 Newton steps of O(K
    // J^3 + K^2 J^2).
    HW_DEVICE Rates solve(const ChannelView &channels, KnownDoubles p, Doubles c) {
        problem_.compare(channels.g, p, c);
        if (problem_.others == 0) return nothing(c);
        problem_.lay_out(channels);
        size();
        Int number = 0;
        for (Int k = 0; k < arms_; ++k)
            if (!is_best(problem_.standing[k])) gap_[number++] = c[k];
        find_faces(channels.g);
        if (faces_ == 0) return nothing(c);
        const End end = optimise();
        number = 0;
        for (Int k = 0; k < arms_; ++k) {
            const ArmStanding standing = problem_.standing[k];
            if (is_best(standing))
                c[k] = 0.0;
            else if (end != End::LOST)
                c[k] = cheapest_[number++];
            else
                c[k] = standing == ArmStanding::RIVAL ? thumb(channels.g[k], c[k]) : 0.0;
        }
        return end == End::SOLVED ? Rates::SOLVED : Rates::STALLED;
    }

  private:
    enum class End { SOLVED, STALLED, LOST };

    HW_DEVICE Rates nothing(Doubles c) {
        fill(c, 0.0);
        return Rates::NOTHING;
    }

    HW_DEVICE static double thumb(KnownDoubles g, double gap) {
        double low = infinity, high = -infinity;
        for (const double value : g) low = min(low, value), high = max(high, value);
        const double ratio = (high - low) / gap;
        return 0.5 * (ratio * ratio);
    }

    // The extent of what is worked on.
    HW_DEVICE void size() {
        others_ = problem_.others;
        const Int others = others_, wide = padded(others + 1), rows = problem_.rows.law.size;
        room_.narrow(problem_.equations.columns);
        gap_.size = bend_.size = rate_.size = cheapest_.size = dual_.size = level_.size = others;
        here_.narrow(others, rows);
        trial_.narrow(others, rows);
        further_.narrow(others, rows);
        slope_.columns = solved_.columns = held_.columns = wide;
        crossed_.rows = crossed_.columns = multiplier_.columns = mixing_.size = wide;
        multiplier_.rows = problem_.count + 1;
    }

    // Find the arms that can draw level, and put a measure on each's face, small enough to leave every
    // slack positive.
    HW_DEVICE void find_faces(KnownTable g) {
        faces_ = 0;
        for (Int k = 0; k < arms_; ++k) {
            if (is_best(problem_.standing[k])) continue;
            const Doubles h = h_[faces_];
            for (Int x = 0; x < points_; ++x) h[x] = g(k, x) - g(problem_.best, x);
            const double most = magnitude(h);
            for (double &value : h) value /= most;
            if (reach({problem_.equations, problem_.count, h, here_.q[faces_]}, problem_.inner, room_)) {
                problem_.standing[k] = ArmStanding::RIVAL;
                ++faces_;
            }
        }
        const Doubles used = here_.slack;
        for (Int f = 0; f < faces_; ++f) {
            fill(used, 0.0);
            weigh(here_, f);
            add_divergence(problem_.rows, here_.seen(f), used);
            double room = infinity;
            for (Int k = 0; k < others_; ++k)
                if (used[k] > 0.0) room = min(room, gap_[k] / used[k]);
            for (double &value : here_.q[f]) value *= 0.5 / static_cast<double>(faces_) * room;
        }
    }

    HW_DEVICE void weigh(Measures &at, Int f) {
        double mass = 0.0;
        for (const double value : at.q[f]) mass += value;
        at.mass[f] = mass;
        look(problem_.rows, at.q[f], at.seen(f));
    }

    // All that follows from the measures.
    HW_DEVICE void weigh(Measures &at) {
        fill(at.slack, 0.0);
        for (Int f = 0; f < faces_; ++f) {
            weigh(at, f);
            add_divergence(problem_.rows, at.seen(f), at.slack);
        }
        for (Int k = 0; k < others_; ++k) at.slack[k] = gap_[k] - at.slack[k];
    }

    HW_INLINE double total_mass() const {
        double total = 0.0;
        for (Int f = 0; f < faces_; ++f) total += here_.mass[f];
        return total;
    }

    // Solve M d + E' nu = -v, E d = -e on face f, for v the barrier's gradient (with e = E 1: back onto the
    // face), in column L of `solved`, and for v the gradient of each G_k (with e = 0), in column k. `held`
    // becomes E' nu. What couples the faces, G_k's gradient times each step, is added to `crossed`, the
    // other way round.
    HW_DEVICE void solve_face(Int f) {
        const Int m = problem_.count + 1;
        const Table solved = solved_[f], slope = slope_[f], held = held_[f], nu = multiplier_;
        const Table unit = room_.unit, within = room_.within;
        factor(room_.curved, points_);
        copy<double>(unit.flat(), within.flat());
        forward(room_.curved, points_, within);
        for (Int i = 0; i < slope.size(); ++i) solved.data[i] = -slope.data[i];
        forward(room_.curved, points_, solved);
        square(within, m, room_.gram.a);
        factor(room_.gram, m);
        fill(nu.flat(), 0.0);
        add_crossed(1.0, within, m, solved, nu);
        for (Int x = 0; x < points_; ++x)
            for (Int i = 0; i < m; ++i) nu(i, others_) += unit(x, i);
        forward(room_.gram, m, nu);
        add_crossed(1.0, solved, others_ + 1, solved, crossed_);
        add_crossed(-1.0, nu, others_ + 1, nu, crossed_);
        backward(room_.gram, m, nu);
        add_product(-1.0, within, m, nu, solved);
        backward(room_.curved, points_, solved);
        fill(held.flat(), 0.0);
        add_product(1.0, unit, m, nu, held);
    }

    // Newton's step from Q, relative to it; returns the squared decrement: what it promises, doubled.
    HW_DEVICE double direct(double t) {
        const Table equations = problem_.equations;
        for (Int k = 0; k < others_; ++k) bend_[k] = t * dual_[k];
        fill(crossed_.flat(), 0.0);
        for (Int f = 0; f < faces_; ++f) {
            const Doubles q = here_.q[f], h = h_[f];
            for (Int x = 0; x < points_; ++x) equations(x, problem_.count) = h[x];
            scale(equations, q, room_.unit, room_.length);
            const Table slope = slope_[f];
            slopes(problem_.rows, here_.seen(f), q, level_, slope);
            for (Int x = 0; x < points_; ++x) {
                double gradient = -t * q[x] - 1.0;
                for (Int k = 0; k < others_; ++k) gradient += slope(x, k) / here_.slack[k];
                slope(x, others_) = gradient;
            }
            curvature(problem_.rows, here_.seen(f), bend_, q, room_.pull, room_.curved.a);
            solve_face(f);
        }
        couple();
        double down = 0.0;
        for (Int f = 0; f < faces_; ++f)
            for (Int x = 0; x < points_; ++x) {
                step_(f, x) = dot(solved_[f][x], mixing_, mixing_.size);
                down -= slope_(f, x, others_) * step_(f, x);
            }
        return down;
    }

    // Each face's step answers to the slacks, which alone couple the faces: (s / tc - B d) beta = B d0.
    // Leaves in `mixing` how much of each column the whole step takes.
    HW_DEVICE void couple() {
        fill(mixing_, 0.0);
        const Doubles beta = mixing_.first(others_);
        for (Int k = 0; k < others_; ++k) {
            beta[k] = -crossed_(others_, k);
            for (Int m = 0; m <= k; ++m) system_.a(k, m) = crossed_(k, m);
            system_.a(k, k) += here_.slack[k] / bend_[k];
        }
        factor(system_, others_);
        hw::solve(system_, others_, beta);
        mixing_[others_] = 1.0;
    }

    // How the barrier changes with Q (1 + step d), which goes to `at`. Infinite where a slack would lose
    // most of what it has: close to their edge, the path would be slow to follow.
    HW_DEVICE double change(Measures &at, double t, double step) {
        double mass = 0.0;
        LogOfProduct barrier;
        for (Int f = 0; f < faces_; ++f)
            for (Int x = 0; x < points_; ++x) {
                const double part = step * step_(f, x), q = here_.q(f, x);
                at.q(f, x) = q * (1.0 + part);
                mass += q * part;
                barrier.times(1.0 + part);
            }
        weigh(at);
        for (Int k = 0; k < others_; ++k) {
            if (!(at.slack[k] > 0.2 * here_.slack[k])) return infinity;
            barrier.times(at.slack[k] / here_.slack[k]);
        }
        return -barrier.value() - t * mass;
    }

    HW_INLINE static void swap(Measures &a, Measures &b) {
        const Measures c = a;
        a = b;
        b = c;
    }

    // Move Q along the step until the barrier has fallen enough; false if it will not. Entries that start
    // near 0 at most double in a whole step: longer ones are tried.
    HW_DEVICE bool descend(double t, double down) {
        double shrink = 0.0, grow = 0.0;
        for (const double each : step_.flat().first(faces_ * points_))
            shrink = max(shrink, -each), grow = max(grow, each);
        const double most = 0.95 / max(shrink, 1e-300);
        // so near, Newton's step is right and the change is all rounding
        const double enough = max(shrink, grow) < 0.05 ? infinity : 1e-6;
        double step = min(1.0, most), found = change(trial_, t, step);
        while (!(found < -0.1 * step * down + enough)) {
            step *= 0.5;
            if (step < 1e-12) return false;
            found = change(trial_, t, step);
        }
        while (step >= 1.0 && 4.0 * step < most) {
            const double further = change(further_, t, 4.0 * step);
            if (!(further < found - 0.1)) break;
            step *= 4.0;
            found = further;
            swap(trial_, further_);
        }
        swap(here_, trial_);
        return true;
    }

    // The rates that Newton's step proposes, (1 / slack + beta) / t, and a lower bound of min_l F_l at
    // them: the least entry of u - E' lambda over the faces.
    HW_DEVICE double certify(double t) {
        for (Int k = 0; k < others_; ++k)
            rate_[k] = max((1.0 / here_.slack[k] + mixing_[k]) / t, 0.1 * dual_[k]);
        double least = infinity;
        for (Int f = 0; f < faces_; ++f)
            for (Int x = 0; x < points_; ++x) {
                double u = dot(held_[f][x], mixing_, mixing_.size) / t;
                for (Int k = 0; k < others_; ++k) u += rate_[k] * slope_(f, x, k);
                least = min(least, u / here_.q(f, x));
            }
        return least;
    }

    // Follow the central path until certified rates cost little more than the masses prove. The cheapest
    // are kept.
    HW_DEVICE End optimise() {
        constexpr Int STEPS = 200;
        weigh(here_);
        const double barriers = static_cast<double>(faces_ * points_ + others_);
        double t = 0.03 * barriers / total_mass(), least_cost = infinity;  // from well inside
        for (Int k = 0; k < others_; ++k) dual_[k] = 1.0 / (t * here_.slack[k]);
        for (Int turn = 0; turn < STEPS; ++turn) {
            const double lower = total_mass(), down = direct(t), certificate = certify(t);
            const double cost = dot(gap_, rate_, others_);
            if (certificate > 0.0 && cost / certificate < least_cost) {
                least_cost = cost / certificate;
                for (Int k = 0; k < others_; ++k) cheapest_[k] = rate_[k] / certificate;
            }
            if (least_cost <= (1.0 + ACCURACY) * lower) return End::SOLVED;
            if (!(down < infinity) || !descend(t, down)) break;
            for (Int k = 0; k < others_; ++k) dual_[k] = min(rate_[k], 10.0 * dual_[k]);
            if (down < 1.0) t = max(min(10.0 * t, barriers / (CENTRED * lower)), t);
        }
        return least_cost < infinity ? End::STALLED : End::LOST;
    }

    RatesProblem problem_;
    Int arms_, points_, others_ = 0, faces_ = 0;  // K, J, L; faces found
    FaceRoom room_;
    Measures here_, trial_, further_;
    Table h_, step_;                  // (L, J) by face: the arm's mean less the best's, scaled; Newton's step
    Cube<double> slope_;              // (L, J, w) by face: the gradients of each G_k, then the barrier's
    Cube<double> solved_, held_;      // (L, J, w) the steps that go with them; E' nu, nu their multipliers
    Table crossed_, multiplier_;      // (w, w) gradients times steps, over all faces; (J, w) one face's nu
    Triangle system_;                 // (L, L) what couples the faces
    Doubles mixing_;                  // (w,) how much of each column a step takes: beta, and 1
    Doubles gap_, bend_;              // (L,) and the curvature's weights t c
    Doubles rate_, cheapest_, dual_;  // (L,) rates: proposed, the cheapest so far, what the curvature goes by
    Doubles level_;                   // (L,) scratch
};

}  // namespace HW_BUILD
}  // namespace hw
