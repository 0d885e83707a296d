/** A text that changes with every token, taken over a few times a second: rarer, the more there is to draw. */
import { useEffect, useRef, useState } from 'react';

const SHORTEST = 40;

/** Milliseconds between two drawings of an open text. Most of what is drawn anew is its last block, seldom long. */
const pause = (text: string): number => SHORTEST + Math.min(400, text.length / 500);

export function usePaced(text: string, streaming: boolean): string {
  const [shown, setShown] = useState(text);
  const latest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    latest.current = text;
    if (!streaming || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      setShown(latest.current);
    }, pause(text));
  }, [text, streaming]);
  useEffect(() => () => {
    clearTimeout(timer.current);
    timer.current = undefined;
  }, []);
  // A text that is done, or is another one, is shown at once.
  return streaming && text.startsWith(shown) ? shown : text;
}
