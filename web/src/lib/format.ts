/**
 * Formatting of numbers, sizes, durations and dates. `formatAge` is for lists: `now`, `5 min`, `3 h`, `2 d`, then the
 * day.
 */
import type { MessageMetadata } from '@/components/messages/message';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export function formatAge(isoTime: string, now: number = Date.now()): string {
  const timestamp = Date.parse(isoTime);
  const age = now - timestamp;
  if (Number.isNaN(age)) return '';
  if (age < MINUTE_MS) return 'now';
  if (age < HOUR_MS) return `${Math.floor(age / MINUTE_MS)} min`;
  if (age < DAY_MS) return `${Math.floor(age / HOUR_MS)} h`;
  if (age < 7 * DAY_MS) return `${Math.floor(age / DAY_MS)} d`;
  const isSameYear = new Date(timestamp).getFullYear() === new Date(now).getFullYear();
  return new Date(timestamp).toLocaleDateString('en', {
    day: 'numeric',
    month: 'short',
    ...(isSameYear ? {} : { year: 'numeric' }),
  });
}

/** Age within a sentence: `just now`, `5 min ago`, `on Nov 1`. */
export function formatTimeAgo(isoTime: string, now: number = Date.now()): string {
  const age = formatAge(isoTime, now);
  if (age === 'now') return 'just now';
  return /^\d+ /.test(age) ? `${age} ago` : `on ${age}`;
}

/** Date and time in full. */
export const formatDateTime = (isoTime: string): string =>
  new Date(isoTime).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** 312, 4.1k, 1.2M */
export function formatCompactNumber(number: number): string {
  if (number < 1000) return String(Math.round(number));
  if (number < 999_500) return `${roundShort(number / 1000)}k`;
  return `${roundShort(number / 1_000_000)}M`;
}

/** Bytes or characters: 900 B, 4.1 KB, 1.2 MB */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${roundShort(bytes / 1000)} KB`;
  return `${roundShort(bytes / 1_000_000)} MB`;
}

/** 40 ms, 0.3 s, 12 s, 2 min 5 s */
export function formatDuration(seconds: number): string {
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${roundShort(seconds)} s`;
  const rounded = Math.round(seconds);
  return rounded < 60 ? `${rounded} s` : `${Math.floor(rounded / 60)} min ${rounded % 60} s`;
}

const roundShort = (number: number): string =>
  number < 10 ? number.toFixed(1).replace('.0', '') : String(Math.round(number));

/** Usage of an answer: "312 tokens · 1.4 s". */
export function formatUsage({ usage, seconds }: MessageMetadata): string {
  const tokens = usage && (usage.totalTokens ?? (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
  return [tokens ? `${formatCompactNumber(tokens)} tokens` : '', seconds === undefined ? '' : formatDuration(seconds)]
    .filter(Boolean)
    .join(' · ');
}

/** Usage in full, for the tooltip. */
export function formatUsageDetails({ usage, seconds }: MessageMetadata): string {
  const counts: [number | undefined, string][] = [
    [usage?.inputTokens, 'in'],
    [usage?.cachedInputTokens, 'cached'],
    [usage?.outputTokens, 'out'],
    [usage?.reasoningTokens, 'reasoning'],
  ];
  const tokens = counts.flatMap(([number, label]) => (number === undefined ? [] : [`${number} ${label}`])).join(', ');
  return [tokens && `Tokens: ${tokens}`, seconds === undefined ? '' : `${seconds.toFixed(2)} s`]
    .filter(Boolean)
    .join(' · ');
}

/** $0.0012, $3.20 */
export function formatDollars(dollars: number): string {
  if (dollars === 0) return '$0';
  if (dollars < 0.000_001) return '<$0.000001';
  return dollars < 0.1 ? `$${Number(dollars.toPrecision(2)).toFixed(6).replace(/0+$/, '')}` : `$${dollars.toFixed(2)}`;
}

/** 1 trace, 12 traces */
export const pluralize = (number: number, noun: string): string =>
  `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

export const capitalize = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** 512 bytes, 8 KiB, 1.5 MiB */
export function formatBytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const unit = Math.min(units.length - 1, count > 0 ? Math.floor(Math.log2(count) / 10) : 0);
  const amount = count / 1024 ** unit;
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${units[unit]}`;
}

/** Elapsed time in its two largest units: 1 d 1 h. */
export function formatElapsed(seconds: number): string {
  const units: [number, string][] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const largest = units.findIndex(([size]) => seconds >= size);
  if (largest === -1) return '0 s';
  let remaining = Math.floor(seconds);
  return units
    .slice(largest, largest + 2)
    .flatMap(([size, name]) => {
      const count = Math.floor(remaining / size);
      remaining -= count * size;
      return count ? [`${count} ${name}`] : [];
    })
    .join(' ');
}

const BYTE_LIMITS = new Set([
  'max_body',
  'max_url',
  'max_headers',
  'max_string',
  'max_file',
  'files_max',
  'otlp_max_body',
  'otlp_max_unpacked',
  'trace_max_bytes',
  'run_bytes',
  'ws_max',
]);

/** A limit of the server with the unit that its name implies. */
export function formatLimit(name: string, value: number): string {
  if (BYTE_LIMITS.has(name)) return formatBytes(value);
  if (name.endsWith('_seconds')) return `${value} s`;
  return name.endsWith('_days') ? `${value} d` : value.toLocaleString('en');
}

/** A setting's value on one line. */
export const formatSettingValue = (value: unknown): string =>
  typeof value === 'string' ? value || '(empty)' : JSON.stringify(value);

/** ISO time in that many days; null for never. */
export const daysFromNow = (days: number | null, now: number = Date.now()): string | null =>
  days === null ? null : new Date(now + days * 86_400_000).toISOString();
