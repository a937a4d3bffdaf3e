// How the rows of a problem are dealt to blocks, without a device: persistent.cpp plans by it,
// tests look at it.
#pragma once

#include "core/device.h"
#include "core/family.h"
#include "kernels/persistent/persistent.h"
#include "kernels/persistent/query_order.h"

namespace msda::persistent {

struct Entry;

// All of ScheduleParams but what a call's buffers say, the order itself and cached levels.
ScheduleParams make_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                             Device const& device);

// Changes a schedule of make_schedule() to one with cached levels.
void cache_levels_in(ScheduleParams& schedule, Entry const& entry, Problem const& problem);

// The same with cached levels where the variant has them. The variant, one of this family, takes
// the problem.
ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device);

}  // namespace msda::persistent
