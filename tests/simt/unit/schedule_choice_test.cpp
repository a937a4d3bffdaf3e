// Schedules and their names.
#include "runtime/thread_schedule.h"

#include <doctest/doctest.h>

TEST_CASE("simt: schedules have names") {
  CHECK(simt::schedule_of("").order == simt::Order::in_order);
  CHECK(simt::schedule_of("order").order == simt::Order::in_order);
  simt::Schedule const random = simt::schedule_of("random:17");
  CHECK(random.order == simt::Order::random);
  CHECK(random.seed == 17);
  CHECK(simt::text_of(random) == "random:17");
  CHECK(simt::text_of(simt::schedule_of("warps:3")) == "warps:3");
}

TEST_CASE("simt: a process can be run again with its schedule") {
  std::string const command = simt::repeat_command();
  CHECK(command.starts_with("MSDA_SIMT_SCHEDULE=" + simt::text_of(simt::chosen_schedule()) + " "));
  CHECK(command.find("msda_test_simt") != std::string::npos);
}

TEST_CASE("simt: a test sets the schedule for a while") {
  std::string const chosen = simt::text_of(simt::chosen_schedule());
  {
    simt::ScopedSchedule const other({.order = simt::Order::warps, .seed = 7});
    CHECK(simt::text_of(simt::current_schedule()) == "warps:7");
    CHECK(simt::repeat_command().starts_with("MSDA_SIMT_SCHEDULE=" + chosen + " "));
  }
  CHECK(simt::text_of(simt::current_schedule()) == chosen);
}
