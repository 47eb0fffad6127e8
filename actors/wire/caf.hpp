#pragma once

// The one header through which CAF's core enters; precompiled where CAF is
// used.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/typed_event_based_actor.hpp>
