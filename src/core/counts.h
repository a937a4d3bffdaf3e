// Counts of what a kernel's forward asks of a GPU, made from its layout and the problem's sizes.
// docs/roofline.md says what is counted, and how near the hardware's counters it is.
#pragma once

namespace msda {

inline constexpr double kWavefrontBytes = 128;  // that one cycle of an SM moves through L1

struct Counts {
  // Bytes of device memory.
  double input_bytes = 0;   // coordinates, weights and reference points, once
  double output_bytes = 0;  // once
  double value_bytes =
      0;  // of values the pixels that points reach if they are spread over the maps
  double gathered_bytes = 0;  // of values by loads of corners from global memory, each for itself
  double copied_bytes = 0;    // of values into shared memory, by all blocks

  // Loads of corners by whole warps, from global memory and from levels cached in shared memory.
  double gather_loads = 0;
  double lines_of_load = 0;  // lines of 128 bytes that one of them touches
  double row_bytes = 0;      // that it reads in one place

  // L1 wavefronts.
  double gather_wavefronts = 0;
  double record_wavefronts = 0;  // points on their way from the lanes that locate them
  double input_wavefronts = 0;
  double output_wavefronts = 0;
  double copy_wavefronts = 0;  // into shared memory

  double instructions = 0;  // of warps; 0: not counted

  double compulsory_bytes() const { return input_bytes + output_bytes + value_bytes; }
  // The bytes where every gather misses.
  double most_bytes() const { return input_bytes + output_bytes + gathered_bytes + copied_bytes; }
  double wavefronts() const {
    return gather_wavefronts + record_wavefronts + input_wavefronts + output_wavefronts +
           copy_wavefronts;
  }
};

}  // namespace msda
