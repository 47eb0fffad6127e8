#pragma once

#include <cstdint>
#include <span>

namespace troupe {

/// The area under the ROC curve: the probability that a sample of label 1 has
/// a higher score than one of label 0, equal scores counting half. Exact, by
/// ranks, in the order of n log n.
/// Shapes: scores and labels [n], labels 0 or 1.
/// Errors: NaN where one of the labels does not occur, or a score is NaN.
/// Source: Hanley, McNeil 1982 (the Mann-Whitney statistic).
double area_under_curve(std::span<const float> scores,
                        std::span<const int32_t> labels);

} // namespace troupe
