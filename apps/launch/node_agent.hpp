#pragma once

namespace troupe {

/// Plays the agent of a host: starts and ends roles as a launcher tells it over
/// standard input, and reports over standard output (agent_link.hpp has the
/// messages). Keeps the memory of shards, so that it outlives their processes;
/// makes the roles' keys, which stay in its memory. Ends with standard input,
/// or where the launcher gives no sign of life for half a minute; its roles end
/// with it, however it ends. After SIGTERM, SIGINT or SIGHUP its roles leave,
/// and it when they have; a second one ends it at once. Returns the exit
/// status. Errors: UsageError where standard input is a terminal.
int play_agent();

} // namespace troupe
