#pragma once

namespace troupe {

/// page.html, as the build found it. Each NONCE in it stands for a word that
/// the answer's head repeats.
extern const char* const page_text;

} // namespace troupe
