#pragma once

#include "actors/caf.hpp"
