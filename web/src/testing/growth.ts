/** For tests: how the time of a call grows with its input. A limit in seconds would depend on the machine. */

const TIMES = 16;

function milliseconds(call: (size: number) => unknown, size: number): number {
  const since = performance.now();
  call(size);
  return performance.now() - since;
}

/**
 * How many times as long `call(size)` takes as `call(size / 16)`: the least of three measurements, as whatever else
 * runs on the machine only adds to it. In proportion that is 16, and 256 where time grows with the square.
 */
export function growth(call: (size: number) => unknown, size: number): number {
  const ratios = Array.from(
    { length: 3 },
    () => milliseconds(call, size) / Math.max(1, milliseconds(call, size / TIMES)),
  );
  return Math.min(...ratios);
}
