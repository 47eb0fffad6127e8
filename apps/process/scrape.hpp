#pragma once

#include "actors/page/scraped_value.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace troupe {

/// Reads Prometheus' text format; comments are skipped.
/// Errors: std::runtime_error naming the line that is none.
std::vector<ScrapedValue> parse_exposition(const std::string& text);

/// What a reader from another host has: the job's authority (PEM), and a token.
struct ScrapeCredentials {
  std::string authority{}; ///< empty: plain HTTP
  std::string token{};
};

struct Settings;
/// What a run whose metrics leave its host asks for; of others nothing.
ScrapeCredentials scrape_credentials(const Settings& settings);

/// Asks the endpoint of a run, HOST:PORT, for its metrics.
/// Errors: std::runtime_error naming the address, when the time is over at the
/// latest.
std::vector<ScrapedValue>
scrape(const std::string& address, const ScrapeCredentials& credentials = {},
       std::chrono::milliseconds timeout = std::chrono::seconds{5});

} // namespace troupe
