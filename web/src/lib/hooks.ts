/** A value as it was when it last rested that long; what somebody types is asked for when they pause. */
import { useEffect, useState } from 'react';

export function useDebounced<T>(value: T, milliseconds: number): T {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return delayed;
}

/** The name of the view in the browser's tab. */
export function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title ? `${title} · Palaver` : 'Palaver';
    return () => {
      document.title = 'Palaver';
    };
  }, [title]);
}

const NOW_INTERVAL_MS = 20_000;

/** The time, often enough for "5 min". */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), NOW_INTERVAL_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
