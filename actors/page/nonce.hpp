#pragma once

#include <string>

namespace troupe {

/// A word that nobody can know before, by which a page's policy knows the
/// page's own script and style.
std::string random_nonce();

/// A page's text in which each NONCE is that word.
std::string with_nonce(std::string text, const std::string& nonce);

} // namespace troupe
