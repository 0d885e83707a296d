/** Time axis of a trace in milliseconds after its start: parse, zoom, position, ticks. */

export interface TimeRange {
  from: number;
  to: number;
}

/** Milliseconds since 1970, with microseconds as fraction. */
export function parseMoment(at: string): number {
  const [, seconds = '', fraction = ''] = /^(.{19})(?:\.(\d{1,6}))?/.exec(at) ?? [];
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
const joinUnits = (count: number, unit: string, restCount: number, smaller: string): string =>
  restCount ? `${count} ${unit} ${restCount} ${smaller}` : `${count} ${unit}`;

/** One microsecond. */
const MIN_RANGE_MS = 0.001;

/** Zoom around the center, at most to the whole. */
export function zoomRange(range: TimeRange, duration: number, factor: number): TimeRange {
  const middle = (range.from + range.to) / 2;
  const half = ((range.to - range.from) * factor) / 2;
  return clampRange({ from: middle - half, to: middle + half }, duration);
}

/** Move by a share of its length, within the whole. */
export function moveRange(range: TimeRange, duration: number, share: number): TimeRange {
  const width = range.to - range.from;
  const from = Math.min(Math.max(0, range.from + width * share), Math.max(0, duration - width));
  return { from, to: from + width };
}

/** Normalize direction and clip to the whole. */
export function clampRange({ from, to }: TimeRange, duration: number): TimeRange {
  const minWidth = Math.min(MIN_RANGE_MS, duration);
  const first = Math.min(Math.max(0, Math.min(from, to)), duration - minWidth);
  return { from: first, to: Math.min(duration, Math.max(first + minWidth, Math.max(from, to))) };
}

export const isFullRange = (range: TimeRange, duration: number): boolean => range.from <= 0 && range.to >= duration;

/** Position and width in percent of the range, or the side where it lies outside. */
export function barPosition(
  at: number,
  spanDuration: number,
  range: TimeRange,
): { left: number; width: number } | 'before' | 'after' {
  const width = range.to - range.from || 1;
  if (at + spanDuration < range.from) return 'before';
  if (at > range.to) return 'after';
  const left = Math.max(0, (at - range.from) / width);
  const right = Math.min(1, (at + spanDuration - range.from) / width);
  return { left: left * 100, width: Math.max(0, right - left) * 100 };
}

/** At most `most` round ticks. */
export function ticks(range: TimeRange, maxTicks: number): { at: number; label: string }[] {
  const width = range.to - range.from;
  if (!(width > 0)) return [];
  const raw = width / maxTicks;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((times) => times * power >= raw) ?? 10) * power;
  const marks: { at: number; label: string }[] = [];
  for (let tick = Math.ceil(range.from / step); tick * step <= range.to && marks.length <= maxTicks; tick++) {
    marks.push({ at: tick * step, label: tick === 0 ? '0' : formatMilliseconds(tick * step) });
  }
  return marks;
}
