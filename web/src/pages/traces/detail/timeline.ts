/** Time axis of a trace in milliseconds after its start: parse, zoom, position, ticks. */

export interface TimeRange {
  from: number;
  to: number;
}

/** Parse a UTC timestamp to milliseconds since 1970, with microseconds as the fraction; 0 if invalid. */
export function parseMoment(timestamp: string): number {
  const [, seconds = '', fraction = ''] = /^(.{19})(?:\.(\d{1,6}))?/.exec(timestamp) ?? [];
  const wholeSeconds = Date.parse(`${seconds}Z`);
  return Number.isNaN(wholeSeconds) ? 0 : wholeSeconds + Number(`0.${fraction || 0}`) * 1000;
}

/** 0.4 ms, 12 ms, 1.24 s, 2 min 5 s, 3 h 20 min */
export function formatMilliseconds(ms: number): string {
  if (ms < 0.001) return '0 ms';
  if (ms < 10) return `${roundShort(ms, ms < 0.1 ? 3 : ms < 1 ? 2 : 1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9995) return `${roundShort(ms / 1000, 2)} s`;
  if (ms < 59_950) return `${roundShort(ms / 1000, 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return joinUnits(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return joinUnits(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  return joinUnits(Math.floor(minutes / 1440), 'd', Math.round((minutes % 1440) / 60), 'h');
}

const roundShort = (value: number, digits: number): string => String(Number(value.toFixed(digits)));
const joinUnits = (count: number, unit: string, smallerCount: number, smaller: string): string =>
  smallerCount ? `${count} ${unit} ${smallerCount} ${smaller}` : `${count} ${unit}`;

/** One microsecond. */
const MIN_RANGE_MS = 0.001;

/** Zoom around the center, at most to the whole. */
export function zoomRange(range: TimeRange, duration: number, factor: number): TimeRange {
  const middle = (range.from + range.to) / 2;
  const half = ((range.to - range.from) * factor) / 2;
  return clampRange({ from: middle - half, to: middle + half }, duration);
}

/** Move by a fraction of its length, within the whole. */
export function moveRange(range: TimeRange, duration: number, fraction: number): TimeRange {
  const width = range.to - range.from;
  const from = Math.min(Math.max(0, range.from + width * fraction), Math.max(0, duration - width));
  return { from, to: from + width };
}

/** Normalize direction and clip to the whole. */
export function clampRange({ from, to }: TimeRange, duration: number): TimeRange {
  const minWidth = Math.min(MIN_RANGE_MS, duration);
  const first = Math.min(Math.max(0, Math.min(from, to)), duration - minWidth);
  return { from: first, to: Math.min(duration, Math.max(first + minWidth, Math.max(from, to))) };
}

export const isFullRange = (range: TimeRange, duration: number): boolean => range.from <= 0 && range.to >= duration;

/** Position and width of a span in percent of the range, or the side on which it lies outside. */
export function barPosition(
  start: number,
  spanDuration: number,
  range: TimeRange,
): { left: number; width: number } | 'before' | 'after' {
  const width = range.to - range.from || 1;
  if (start + spanDuration < range.from) return 'before';
  if (start > range.to) return 'after';
  const left = Math.max(0, (start - range.from) / width);
  const right = Math.min(1, (start + spanDuration - range.from) / width);
  return { left: left * 100, width: Math.max(0, right - left) * 100 };
}

/** Ticks at round times (steps of 1, 2 or 5 times a power of ten), about `maxTicks` of them. */
export function ticks(range: TimeRange, maxTicks: number): { time: number; label: string }[] {
  const width = range.to - range.from;
  if (!(width > 0)) return [];
  const minStep = width / maxTicks;
  const power = 10 ** Math.floor(Math.log10(minStep));
  const step = ([1, 2, 5, 10].find((times) => times * power >= minStep) ?? 10) * power;
  const marks: { time: number; label: string }[] = [];
  for (let tick = Math.ceil(range.from / step); tick * step <= range.to && marks.length <= maxTicks; tick++) {
    marks.push({ time: tick * step, label: tick === 0 ? '0' : formatMilliseconds(tick * step) });
  }
  return marks;
}
