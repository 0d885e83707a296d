/** The colours of a piece of code, once the browser has time for them. Until then, and past a size, there are none. */
import { useEffect, useState } from 'react';
import type { Span } from './highlighter';

const MAX_CODE = 100_000;

export function useHighlight(code: string, language: string, ready: boolean): readonly Span[] | undefined {
  const [done, setDone] = useState<{ code: string; language: string; spans: readonly Span[] | undefined }>();
  const wanted = ready && language !== '' && code.length <= MAX_CODE;
  useEffect(() => {
    if (!wanted) return undefined;
    let left = false;
    const cancel = idle(() => {
      import('./highlighter').then(
        ({ highlighted }) => !left && setDone({ code, language, spans: highlighted(code, language) }),
        () => undefined, // Not to be fetched just now: code without colours is code.
      );
    });
    return () => {
      left = true;
      cancel();
    };
  }, [code, language, wanted]);
  return wanted && done?.code === code && done.language === language ? done.spans : undefined;
}

/** Safari has no idle time to give. */
function idle(run: () => void): () => void {
  if (typeof requestIdleCallback === 'function') {
    const id = requestIdleCallback(run, { timeout: 2000 });
    return () => cancelIdleCallback(id);
  }
  const timer = setTimeout(run, 50);
  return () => clearTimeout(timer);
}
