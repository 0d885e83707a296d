/** Text of any length: long text shows its beginning and a button for more. */
import { useState, type ReactNode } from 'react';
import { formatSize } from '@/lib/format';
import { safeProse, type LinkTarget, namesHost } from '@/lib/safe-text';
import { Button } from './button';

const INITIAL_LENGTH = 20_000;
const LENGTH_PER_PAGE = 200_000;

export function LongText({ text, tidy = safeProse }: { text: string; tidy?: (text: string) => string }): ReactNode {
  const [shown, setShown] = useState(INITIAL_LENGTH);
  if (text.length <= shown) return tidy(text);
  return (
    <>
      {tidy(text.slice(0, shown))}…{' '}
      <Button size="small" onClick={() => setShown(shown + LENGTH_PER_PAGE)}>
        Show more ({formatSize(text.length - shown)})
      </Button>
    </>
  );
}

/** A link to another site. Shows the host unless the label already does. */
export function ExternalLink({
  to,
  words,
  children,
}: {
  to: LinkTarget;
  words: string;
  children: ReactNode;
}): ReactNode {
  return (
    <>
      <a
        href={to.href}
        target="_blank"
        rel="noopener noreferrer nofollow"
        className="text-accent underline decoration-accent/40 underline-offset-2 wrap-anywhere hover:decoration-accent"
      >
        {children}
      </a>
      {!namesHost(words, to) && (
        <span dir="ltr" className="text-[0.85em] wrap-anywhere text-faint">
          {' '}
          ({to.host})
        </span>
      )}
    </>
  );
}
