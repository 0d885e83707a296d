/** Text of any length: a page that is given a megabyte on one line shows its beginning, and the rest when asked. */
import { useState, type ReactNode } from 'react';
import { Button } from '@/ui/button';
import { prose } from '@/lib/safe-text';
import { formatSize } from '@/lib/format';

const FIRST = 20_000;
const MORE = 200_000;

export function LongText({ text, tidy = prose }: { text: string; tidy?: (text: string) => string }): ReactNode {
  const [shown, setShown] = useState(FIRST);
  if (text.length <= shown) return tidy(text);
  return (
    <>
      {tidy(text.slice(0, shown))}…{' '}
      <Button size="small" onClick={() => setShown(shown + MORE)}>
        Show more ({formatSize(text.length - shown)})
      </Button>
    </>
  );
}
