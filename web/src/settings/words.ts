/** Numbers of the server in words. Knows no React. */

export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const step = Math.min(units.length - 1, count > 0 ? Math.floor(Math.log2(count) / 10) : 0);
  const scaled = count / 1024 ** step;
  return `${Number.isInteger(scaled) ? scaled : scaled.toFixed(1)} ${units[step]}`;
}

/** How long something has lasted, in its two largest units. */
export function passed(seconds: number): string {
  const units: [number, string][] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const first = units.findIndex(([size]) => seconds >= size);
  if (first === -1) return '0 s';
  let left = Math.floor(seconds);
  return units
    .slice(first, first + 2)
    .flatMap(([size, name]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count ? [`${count} ${name}`] : [];
    })
    .join(' ');
}

const IN_BYTES = new Set(['max_body', 'max_url', 'max_headers', 'max_string', 'max_file', 'files_max', 'otlp_max_body', 'otlp_max_unpacked', 'trace_max_bytes', 'run_bytes', 'ws_max']);

/** A limit with its unit, which its name tells. */
export function measured(name: string, value: number): string {
  if (IN_BYTES.has(name)) return bytes(value);
  if (name.endsWith('_seconds')) return `${value} s`;
  return name.endsWith('_days') ? `${value} d` : value.toLocaleString('en');
}

/** A setting's value on one line. */
export const valued = (value: unknown): string => (typeof value === 'string' ? value || '(empty)' : JSON.stringify(value));

/** The moment after that many days, as the server takes it; null for never. */
export const after = (days: number | null, now: number = Date.now()): string | null =>
  days === null ? null : new Date(now + days * 86_400_000).toISOString();
