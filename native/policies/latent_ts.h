// latent-ts: the best arm under a draw of the law of X, whose prior is Dirichlet with the same weight on every point.
#pragma once
#include "learning/learner.h"
#include "learning/posterior_walk.h"

namespace hw {
inline namespace HW_BUILD {

struct LatentTs {
    static constexpr bool randomised = true;
    static constexpr bool bounds = false;
    static constexpr bool moves = true;

    // The chain of laws: `particle` as of the last reward, `draft` where it moves in round `drafted` (0: in none yet). The chain
    // follows with the reward: what it is depends on the rewards alone.
    struct Tools {
        PosteriorGeometry geometry;
        Doubles particle, draft, aside;
        Int drafted = 0;

        HW_INLINE explicit Tools(const ChannelView &channels) { geometry.channels = channels; }
        HW_INLINE void set(const Settings &settings, const Evidence &) { geometry.alpha = settings.prior; }
        HW_INLINE void lay(Arena &arena) {
            geometry.lay(arena);
            lay_each(arena, geometry.channels.atoms(), particle, draft, aside);
        }
        HW_DEVICE void forget() {
            fill(particle, 1.0 / static_cast<double>(particle.size));
            drafted = 0;
            hw::forget(geometry);
        }
        HW_INLINE void rebuild() { drafted = 0; }
        HW_DEVICE void begin_ahead(bool draws) {
            if (draws) copy<double>(particle, aside);
        }
        HW_INLINE void begin_draw() { drafted = 0; }
        HW_DEVICE void end_draw() { copy<double>(draft, particle); }  // the chain goes on from draw to draw
        HW_INLINE void after_choice() {}
        HW_DEVICE void end_ahead(bool draws) {
            drafted = 0;
            if (draws) copy<double>(aside, particle);
        }
    };

    // Leave this round's draw of the law of X in `draft`: where the chain moves, once a round, whoever asks how often.
    template <class Policy> HW_DEVICE static void move(const Policy &policy, typename Policy::State &s) {
        Tools &tools = s.learner->tools;
        const Int t = s.round + 1;
        if (tools.drafted == t) return;
        tools.drafted = t;
        copy<double>(tools.particle, tools.draft);
        walk(tools.geometry, s.learner->fit.n, recommended_steps(tools.particle.size), {policy.settings.key, static_cast<Int>(s.replication), t}, tools.draft);
    }
    template <class Policy> HW_DEVICE static void keep_move(const Policy &policy, typename Policy::State &s) {
        move(policy, s);
        copy<double>(s.learner->tools.draft, s.learner->tools.particle);
        s.learner->tools.drafted = 0;  // pending pulls may have made it that of a later round
    }

    // Every arm's mean under the draw; a doubted arm's from its own rewards.
    template <class Policy> HW_DEVICE static Int choose(const Policy &policy, typename Policy::State &s, const Round &, double) {
        move(policy, s);
        const FitState &fit = s.learner->fit;
        const KnownDoubles law = s.learner->tools.draft;
        const Round round{s.round + 1, 0.0};
        Int best = -1;
        for (Int k = 0; k < s.arms(); ++k) {
            s.index[k] = -infinity;
            if (fit.share[k] < 0.0) continue;
            double x = 0.0;
            if (fit.doubted[k]) {
                x = policy.evidence.scaled(s.mean[k] + policy.settings.sd * s.root[k] * normal(policy, s, round, k));
            } else {
                for (Int j = 0; j < law.size; ++j) x += fit.view.g(k, j) * law[j];
                if (fit.view.learned()) x = with_error(policy, s, k, x, normal(policy, s, round, k), law);
            }
            s.index[k] = x;
            if (best < 0 || x > s.index[best]) best = k;
        }
        for (Int k = 0; k < s.arms(); ++k) s.index[k] = policy.evidence.mean(s.index[k]);
        return best;
    }

    // Arm k's mean, where a learned model says x under this law of X: from the posterior of a normal deviation. Before its own
    // rewards are looked at, the deviation's variance is that of the learned mean. The variance of a reward is estimated, with a
    // uniform law's counted as one observation.
    template <class Policy>
    HW_DEVICE static double with_error(const Policy &policy, const typename Policy::State &s, Int k, double x, double normal, KnownDoubles law) {
        const FitState &fit = s.learner->fit;
        double before = 0.0, noise = 1.0 / 12.0;
        for (Int j = 0; j < law.size; ++j) before += law[j] * fit.view.error(k, j) * (law[j] * fit.view.error(k, j));
        if (before == 0.0) return x;
        for (Int i = fit.view.offset[k]; i < fit.view.offset[k + 1]; ++i) {
            const double off = (policy.evidence.pays(k, i - fit.view.offset[k]) - s.mean[k]) / policy.evidence.width;
            if (fit.n[i] > 0.0) noise += fit.n[i] * (off * off);
        }
        const double n = fit.pulls[k], weight = n * (n + 1.0) / noise;  // of the own mean; n = 0 makes none
        const double precision = 1.0 / before + weight;
        const double shift = n > 0.0 ? weight * (policy.evidence.scaled(s.mean[k]) - x) / precision : 0.0;
        return x + shift + normal / sqrt(precision);
    }

  private:
    template <class Policy> HW_DEVICE static double normal(const Policy &policy, const typename Policy::State &s, const Round &round, Int k) {
        return normal_quantile(to_open_unit(draw(static_cast<const hw::State<double> &>(s), policy.settings.key, round, purpose::normal, k).one));
    }
};

}  // namespace HW_BUILD
}  // namespace hw
