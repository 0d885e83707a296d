/** Test helper: measures how time grows with input size, because absolute limits depend on the machine. */

const TIMES = 16;

function milliseconds(call: (size: number) => unknown, size: number): number {
  const since = performance.now();
  call(size);
  return performance.now() - since;
}

/**
 * Ratio of the times for `size` and `size / 16`; the minimum of three runs, because other load only adds. 16 if
 * linear, 256 if quadratic.
 */
export function growth(call: (size: number) => unknown, size: number): number {
  const ratios = Array.from(
    { length: 3 },
    () => milliseconds(call, size) / Math.max(1, milliseconds(call, size / TIMES)),
  );
  return Math.min(...ratios);
}
