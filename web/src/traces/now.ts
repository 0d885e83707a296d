/** The time, often enough for "5 min". */
import { useEffect, useState } from 'react';

const OFTEN = 20_000;

export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), OFTEN);
    return () => clearInterval(timer);
  }, []);
  return now;
}
