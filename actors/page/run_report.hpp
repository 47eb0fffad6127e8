#pragma once

#include <string>

namespace troupe {

/// The report of a run: one file of HTML that asks nobody for anything, whose
/// policy says so too, with the run's summary in it (docs/command_line.md) as a
/// block of JSON, which nothing that it says can end. `summary`: JSON.
/// Errors: InputError, without a file's name: it is not the summary of a run.
std::string run_report(const std::string& summary);

} // namespace troupe
