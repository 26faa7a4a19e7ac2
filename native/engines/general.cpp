#include "general.h"

#include "../builds/engine_of.h"
#include "../policies/learning.h"
#include "../policies/many.h"
#include "../policies/random_rewards.h"
#include "serial.h"

namespace hw {
inline namespace HW_BUILD {
namespace {

// Policies that learn the law of X; index policies with very many arms, or under the filter where rewards are random.
struct GeneralSeats {
    static SoloPlayer take(const Game &game, const Player &player, Arena &arena) {
        if (player.settings.rule < 0) return IndexSeats::take(game, player, arena);
        switch (static_cast<Rule>(player.settings.rule)) {
#define HW_CASE(code, name, type) \
    case Rule::code: return solo(Learning<type>{game.rewards, player.settings, *game.evidence}, arena);
            HW_LEARNING_RULES(HW_CASE)
#undef HW_CASE
#define HW_CASE(code, name, type) \
    case Rule::code: return index_policy<type>(game, player.settings, arena);
            HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
        }
        return {};
    }

  private:
    template <class Rule> static SoloPlayer index_policy(const Game &game, const Settings &settings, Arena &arena) {
        if (game.columns != nullptr) {
            if constexpr (!Rule::needs.levels) return solo(Many<Rule>{game.rewards, settings, *game.columns, *game.memory}, arena);
            return {};
        }
        return solo(IndexedRandom<Rule>{{game.rewards, settings}, *game.random}, arena);
    }
};

}  // namespace
}  // namespace HW_BUILD

extern const Engine general_engine = engine_of<Serial<GeneralSeats>>;

}  // namespace hw
