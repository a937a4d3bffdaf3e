// How the rows of a problem are dealt to blocks, without a device: persistent.cpp plans by it,
// tests look at it.
#pragma once

#include "core/device.h"
#include "core/family.h"
#include "kernels/persistent/persistent.h"
#include "kernels/persistent/query_order.h"

namespace msda::persistent {

// All of ScheduleParams but what a call's buffers say, and the order itself. The variant, one of
// this family, takes the problem.
ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device);

}  // namespace msda::persistent
