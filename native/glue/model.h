// What is fixed, as Python objects that keep the arrays their views look at.
#pragma once
#include <list>
#include <optional>

#include "../policies/learning/evidence.h"
#include "learning.h"

namespace glue {

struct Rewards {
    Rewards(Known<std::int64_t, 3> table, double unit, double low, double span) : table(table), view{glue::view(table), unit, low, span, {}} {
        expect(view.table.columns == view.table.layers + 1, "table: the last axis", view.table.columns, view.table.layers + 1);
    }
    Known<std::int64_t, 3> table;
    hw::Rewards view;
};

struct Source {
    Source(Known<std::int64_t, 1> thresholds, Known<std::int64_t, 1> guide, Known<std::int64_t, 2> level, Known<std::int64_t, 3> cuts,
           std::uint64_t seed)
        : thresholds(thresholds), guide(guide), level(level), cuts(cuts),
          view{glue::view(thresholds), glue::view(guide), glue::view(level), glue::view(cuts)}, key(hw::Key::of(seed)) {
        expect(view.level.columns == view.atoms() || view.level.columns == 0, "level: the last axis", view.level.columns, view.atoms());
    }
    Known<std::int64_t, 1> thresholds, guide;
    Known<std::int64_t, 2> level;
    Known<std::int64_t, 3> cuts;
    hw::Source view;
    hw::Key key;
};

struct Evidence {
    Evidence(const Channels &channels, Known<double, 2> pays, Known<std::int64_t, 2> bins, bool binned, double zero, double width)
        : channels(channels), pays(pays), bins(bins), view{channels.view, glue::view(pays), glue::view(bins), binned, zero, width} {
        const Int arms = channels.view.arms();
        expect(view.pays.rows == arms, "pays", view.pays.rows, arms);
        expect(view.bins.rows == arms, "bins", view.bins.rows, arms);
        for (Int k = 0; k < arms; ++k) {
            expect(channels.view.rows_of(k) <= view.pays.columns, "pays: its rows", view.pays.columns, channels.view.rows_of(k));
            for (const Int b : view.bins[k]) expect(0 <= b && b < channels.view.rows_of(k), "bins: an entry", b, channels.view.rows_of(k));
        }
    }
    Channels channels;
    Known<double, 2> pays;
    Known<std::int64_t, 2> bins;
    hw::Evidence view;
};

// The channels (M, J) of arms of random rewards, None for the others, and every arm's mean given X, g (K, J).
struct Random {
    Random(Known<double, 2> g, nb::list channels, double zero, double scale, double slack) : g_(g) {
        view.zero = zero, view.scale = scale, view.slack = slack, view.g = glue::view(g);
        expect(static_cast<Int>(channels.size()) == view.arms(), "channels", static_cast<Int>(channels.size()), view.arms());
        for (const nb::handle item : channels) {
            starts_.push_back(static_cast<Int>(numbers_.size()));
            levels_.push_back(0);
            if (item.is_none()) continue;
            const auto channel = nb::cast<Known<double, 2>>(item);
            const hw::KnownTable rows = glue::view(channel);
            expect(rows.columns == view.points(), "channels: a row", rows.columns, view.points());
            levels_.back() = rows.rows;
            view.most_levels = hw::max(view.most_levels, rows.rows);
            numbers_.insert(numbers_.end(), rows.data, rows.data + rows.size());
        }
        point();
    }
    Random(const Random &other) : view(other.view), g_(other.g_), numbers_(other.numbers_), levels_(other.levels_), starts_(other.starts_) {
        point();
    }
    hw::RandomRewards view;

  private:
    void point() {
        view.channels = {numbers_.data(), static_cast<Int>(numbers_.size())};
        view.levels = {levels_.data(), static_cast<Int>(levels_.size())};
        view.starts = {starts_.data(), static_cast<Int>(starts_.size())};
    }
    Known<double, 2> g_;
    std::vector<double> numbers_;
    std::vector<Int> levels_, starts_;
};

// The rewards by column, where there are too many for a table of pairs.
struct Columns {
    Columns(Known<std::int32_t, 2> up, std::optional<Known<std::uint8_t, 2>> less, std::optional<Known<std::uint32_t, 2>> much_less,
            Known<double, 2> g, Int top, hw::Limits limits)
        : up(up), less(less), much_less(much_less), g(g), view{glue::view(up), {}, {}, glue::view(g), top, limits} {
        if (less) view.less = glue::view(*less);
        if (much_less) view.much_less = glue::view(*much_less);
        expect(view.g.rows == view.arms(), "g", view.g.rows, view.arms());
        expect(view.g.columns == view.atoms(), "g: the last axis", view.g.columns, view.atoms());
    }
    Known<std::int32_t, 2> up;
    std::optional<Known<std::uint8_t, 2>> less;
    std::optional<Known<std::uint32_t, 2>> much_less;
    Known<double, 2> g;
    hw::Columns view;
};

// A problem: its rewards; how they bear on the law of X where a policy is to learn it; what random rewards imply; columns in place of
// the rewards' table.
struct Model {
    Model(const Rewards &rewards, std::optional<Evidence> evidence, std::optional<Random> random, std::optional<Columns> columns)
        : rewards(rewards), evidence(std::move(evidence)), random(std::move(random)), columns(std::move(columns)) {}
    Rewards rewards;
    std::optional<Evidence> evidence;
    std::optional<Random> random;
    std::optional<Columns> columns;
};

// Memory that grows: blocks that are kept until this goes.
class Blocks {
  public:
    hw::Memory memory() {
        return {this, [](void *owner, Int bytes) { return static_cast<Blocks *>(owner)->blocks_.emplace_back(bytes).start(); }};
    }

  private:
    std::list<Block> blocks_;
};

}  // namespace glue
