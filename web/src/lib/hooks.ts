/** Small React hooks. `useDebounced` returns a value once it has not changed for that long. */
import { useEffect, useState } from 'react';

export function useDebounced<T>(value: T, milliseconds: number): T {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return delayed;
}

/** Set the title of the browser tab. */
export function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title ? `${title} · Palaver` : 'Palaver';
    return () => {
      document.title = 'Palaver';
    };
  }, [title]);
}

const NOW_INTERVAL_MS = 20_000;

/** Current time, updated often enough for "5 min". */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), NOW_INTERVAL_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
