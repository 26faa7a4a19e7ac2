// Functions of one arm that index rules stand on, for tests and explanations.
#include "../engines/live.h"
#include "../policies/learning/learner.h"
#include "arrays.h"
#include "learning.h"
#include "parts.h"

namespace glue {
namespace {

using namespace nb::literals;

double kl_empirical_index(Known<std::int64_t, 1> seen, Known<double, 1> pays, Int pulls, double log_t) {
    expect_size("pays", view(pays), view(seen).size);
    return hw::kl_empirical_index(view(seen).data, view(seen).size, [&](Int m) { return view(pays)[m]; }, pulls, log_t);
}

nb::tuple kl_needed(Known<std::int64_t, 1> seen, Known<double, 1> pays, double target) {
    expect_size("pays", view(pays), view(seen).size);
    const hw::Need need = hw::kl_needed(view(seen), view(pays), target);
    return nb::make_tuple(need.value, need.rate);
}

}  // namespace

void bind_indices(nb::module_ &m) {
    m.def(
        "kl_ucb_index",
        [](Known<double, 1> mean, Known<double, 1> pulls, double log_t, double low, double span) {
            expect_size("pulls", view(pulls), view(mean).size);
            return array_of<double>(view(mean).size, [&](Int k) {
                return hw::kl_ucb_index(view(mean)[k], view(pulls)[k], log_t, hw::Scale{low, span});
            });
        },
        "mean"_a, "pulls"_a, "log_t"_a, "low"_a, "span"_a, "KL-UCB's index in its Bernoulli form.");
    m.def(
        "kl_ucb_reaches",
        [](double mean, double pulls, double other, double log_t, double low, double span) {
            return hw::kl_ucb_reaches(mean, pulls, other, log_t, hw::Scale{low, span});
        },
        "mean"_a, "pulls"_a, "other"_a, "log_t"_a, "low"_a, "span"_a, "Whether that index may be `other` or more.");
    m.def("kl_empirical_index", &kl_empirical_index, "seen"_a, "pays"_a, "pulls"_a, "log_t"_a,
          "KL-UCB's index on the arm's own rewards.");
    m.def("kl_needed", &kl_needed, "seen"_a, "pays"_a, "target"_a,
          "How unlikely rewards are under the likeliest law of mean `target`, and how fast that grows.");
    m.def("estimated_error", &hw::estimated_error, "pulls"_a, "total"_a, "squares"_a, "rest"_a, "unit"_a, "sd"_a,
          "The standard error of a mean whose variance is estimated.");
    m.def("elsewhere", &hw::elsewhere, "replication"_a, "draw"_a,
          "The replication of a draw that must not be one of any decision.");
}

}  // namespace glue
