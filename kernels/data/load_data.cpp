#include "kernels/base/error.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/data_kinds.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/standard_scale.hpp"
#include "kernels/data/table_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace troupe {

namespace {

bool fits_itself(const DataSpec& spec) {
  return kind_of(spec).fit != nullptr || option(spec, "scale") == "standard";
}

/// What the samples take that are held: what is mapped can be given back.
uint64_t held_bytes(const Dataset& data) {
  uint64_t result = data.ids.size() * sizeof(int32_t)
                    + data.tokens.size() * sizeof(int32_t);
  if (!data.bytes.is_view())
    result += data.bytes.size();
  if (!data.values.is_view())
    result += data.values.size() * sizeof(float);
  return result;
}

Dataset read(const DataSpec& spec, const ReadLimits& limits) {
  check(spec);
  const auto& kind = kind_of(spec);
  auto result = kind.read_within != nullptr ? kind.read_within(spec, limits)
                                            : kind.read(spec);
  check_held(spec, held_bytes(result), limits.memory);
  return result;
}

std::string described(const SampleShape& shape) {
  auto result = "features " + to_string(shape.features);
  if (shape.vocabulary > 0)
    result += ", " + std::to_string(shape.ids) + " ids below "
              + std::to_string(shape.vocabulary);
  return result;
}

/// Fewer classes are fine: that samples of one are missing happens.
void check_fit(const Dataset& train, Dataset& eval, const DataSpec& eval_spec) {
  auto wanted = train.shape;
  if (eval.shape.classes < wanted.classes)
    wanted.classes = eval.shape.classes;
  if (eval.shape != wanted)
    throw InputError("--eval-data " + to_string(eval_spec) + " has "
                     + described(eval.shape) + ", " + train.name + " has "
                     + described(train.shape)
                     + ", or labels of another kind; take both from one set");
  eval.shape = train.shape;
}

/// Makes the columns of both parts what the training part, or `fitted`, says.
void fit_table(const DataSpec& spec, SplitData& parts,
               const std::shared_ptr<FittedColumns>& fitted, bool unlabelled) {
  const auto columns = fitted ? fitted : fit_columns(spec, *parts.train);
  for (auto* part : {parts.train.get(), parts.eval.get()})
    if (part != nullptr)
      apply_columns(columns, *part, unlabelled);
}

/// The same of other data. `fitted`: null where nothing is known of them.
void fit_parts(const DataSpec& spec, SplitData& parts,
               const std::shared_ptr<FittedColumns>& fitted) {
  const auto& kind = kind_of(spec);
  if (kind.apply != nullptr && fitted && fitted->of_text()) {
    for (auto* part : {parts.train.get(), parts.eval.get()})
      if (part != nullptr)
        kind.apply(spec, fitted, *part);
  } else if (kind.fit != nullptr) {
    kind.fit(spec, *parts.train, parts.eval.get());
  }
}

/// What weights need with them of scale=standard; nothing of so many features
/// that it would not fit beside the weights.
void keep_scale(SplitData& parts) {
  const auto& mean = parts.train->mean;
  if (mean.size() > max_kept_features
      || !std::all_of(mean.begin(), mean.end(),
                      [](float x) { return std::isfinite(x); }))
    return;
  auto& fitted = parts.train->fitted;
  if (!fitted)
    fitted = std::make_shared<FittedColumns>();
  fitted->mean = mean;
  fitted->inverse_deviation = parts.train->inverse_deviation;
  if (parts.eval)
    parts.eval->fitted = fitted;
}

/// `fitted`: null where the training part says it.
void scale_parts(SplitData& parts, const FittedColumns* fitted) {
  if (fitted == nullptr) {
    fit_standard_scale(*parts.train, parts.eval.get());
    keep_scale(parts);
    return;
  }
  const auto width = parts.train->features();
  if (fitted->mean.size() != width || fitted->inverse_deviation.size() != width)
    throw InputError(
      parts.train->name + ": has " + std::to_string(width)
      + " features, and what was trained on had "
      + std::to_string(fitted->mean.size())
      + ": without columns=, a column is the label here as well");
  for (auto* part : {parts.train.get(), parts.eval.get()})
    if (part != nullptr) {
      part->mean = fitted->mean;
      part->inverse_deviation = fitted->inverse_deviation;
    }
}

} // namespace

DataSpec completed(DataSpec eval, const DataSpec& train) {
  const auto& kind = kind_of(train);
  if (&kind_of(eval) != &kind)
    return eval;
  for (const auto& key : kind.keys) {
    const auto given = option(train, key.name);
    const auto own = option(eval, key.name);
    if (key.scope == KeyScope::own)
      continue;
    if (key.scope == KeyScope::shared && own && own != given)
      refuse(eval, std::string{key.name} + "=" + *own + " differs from --data "
                     + to_string(train) + "; leave it out here");
    if (given && !own)
      eval.options.emplace_back(key.name, *given);
  }
  return eval;
}

DataSpec as_fitted(DataSpec spec, const FittedColumns& fitted) {
  if (!fitted.of_table()) {
    const auto& keys = kind_of(spec).keys;
    if (!fitted.mean.empty() && !option(spec, "scale")
        && std::ranges::any_of(keys, [](const DataKey& key) {
             return std::string_view{key.name} == "scale";
           }))
      spec.options.emplace_back("scale", "standard");
    return spec;
  }
  if (spec.kind != "csv" && spec.kind != "parquet")
    return spec;
  const auto own = option(spec, "columns");
  if (own && *own != fitted.given
      && (own->starts_with('@') || column_rules_of(spec) != fitted.rules()))
    refuse(spec, "columns= are others than those that the weights were trained "
                 "with; leave them out");
  std::erase_if(spec.options,
                [](const auto& option) { return option.first == "columns"; });
  DataSpec trained{spec.kind, spec.where, fitted.options};
  trained.options.emplace_back("columns", to_text(fitted.rules()));
  return completed(std::move(spec), trained);
}

SplitData load_data(const DataSpec& given, const HeldOut& held_out,
                    const ReadLimits& limited,
                    const std::shared_ptr<FittedColumns>& fitted) {
  auto limits = limited;
  if (fitted)
    limits.tokenizer = fitted->tokenizer;
  const auto spec = fitted ? as_fitted(given, *fitted) : given;
  if (held_out.fraction == 0 && without_split(spec) != spec)
    refuse(spec, "says which samples are held out, but none are; add "
                 "--eval-fraction F, or leave it out");
  auto parts = split(read(spec, limits), held_out.fraction, split_rule(spec));
  std::optional<DataSpec> eval_spec;
  if (held_out.spec) {
    eval_spec = completed(
      fitted ? as_fitted(*held_out.spec, *fitted) : *held_out.spec, spec);
    if (without_split(*eval_spec) != *eval_spec)
      refuse(*eval_spec,
             "is held out as it is; leave eval= and eval_seed= out");
    if (without_mix(*eval_spec) != *eval_spec)
      refuse(*eval_spec, "is read in order; leave shuffle= out");
    if (&kind_of(*eval_spec) != &kind_of(spec)
        && (fits_itself(spec) || fits_itself(*eval_spec)))
      refuse(*eval_spec, "is of another kind than --data " + to_string(spec)
                           + "; take the same kind");
    if (const auto& table = parts.train->table) // "*" stands for the same
      for (auto& [key, value] : eval_spec->options)
        if (key == "columns")
          value = to_text(table->rules);
    auto in_order = limits;
    in_order.trains = false;
    parts.eval = std::make_shared<Dataset>(read(*eval_spec, in_order));
    if (parts.eval->samples() == 0 && parts.eval->tokens.empty())
      throw InputError(parts.eval->name + ": holds no samples");
  }
  const bool is_table = parts.train->table != nullptr;
  // Weights of before say nothing of what is no table.
  const bool known = fitted && (fitted->of_table() ? is_table : !is_table);
  if (is_table)
    fit_table(spec, parts, fitted, limits.unlabelled);
  else
    fit_parts(spec, parts, known ? fitted : nullptr);
  if (option(spec, "scale") == "standard")
    scale_parts(parts, known && (is_table || !fitted->mean.empty())
                         ? fitted.get()
                         : nullptr);
  if (limits.trains && parts.train->in_files)
    parts.train->in_files->check_mix(*parts.train, mix_rule(spec));
  if (eval_spec)
    check_fit(*parts.train, *parts.eval, *eval_spec);
  return parts;
}

Dataset load_dataset(const DataSpec& spec) {
  return std::move(*load_data(spec).train);
}

} // namespace troupe
