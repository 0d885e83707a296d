/** Text of any length: long text shows its beginning and a button for more. */
import { useState, type ReactNode, useMemo } from 'react';
import { textDiff } from '@/lib/diff';
import { formatSize } from '@/lib/format';
import { safeProse, type LinkTarget, namesHost } from '@/lib/safe-text';
import { Button } from './button';

const INITIAL_LENGTH = 20_000;
const LENGTH_PER_PAGE = 200_000;

export function LongText({
  text,
  sanitize = safeProse,
}: {
  text: string;
  sanitize?: (text: string) => string;
}): ReactNode {
  const [visibleLength, setVisibleLength] = useState(INITIAL_LENGTH);
  if (text.length <= visibleLength) return sanitize(text);
  return (
    <>
      {sanitize(text.slice(0, visibleLength))}…{' '}
      <Button size="small" onClick={() => setVisibleLength(visibleLength + LENGTH_PER_PAGE)}>
        Show more ({formatSize(text.length - visibleLength)})
      </Button>
    </>
  );
}

/** Prose in which backticks mark code. */
export const ProseWithCode = ({ text }: { text: string }): ReactNode =>
  text.split(/`([^`]+)`/).map((piece, index) =>
    index % 2 === 0 ? (
      piece
    ) : (
      // oxlint-disable-next-line react/no-array-index-key -- the pieces never move
      <code key={index} className="font-mono text-[0.92em]">
        {piece}
      </code>
    ),
  );

/** A link to another site. Shows the host unless the label already does. */
export function ExternalLink({
  to,
  linkText,
  children,
}: {
  to: LinkTarget;
  linkText: string;
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
      {!namesHost(linkText, to) && (
        <span dir="ltr" className="text-[0.85em] wrap-anywhere text-faint">
          {' '}
          ({to.host})
        </span>
      )}
    </>
  );
}

const PIECE_CLASSES = {
  same: '',
  added: 'rounded-sm bg-good-soft text-good no-underline',
  removed: 'rounded-sm bg-bad-soft text-bad line-through',
};

/** A diff of two texts, word by word: removed words struck through, added ones underlined. */
export function WordDiff({ from, to }: { from: string; to: string }): ReactNode {
  const pieces = useMemo(() => textDiff(from, to), [from, to]);
  return pieces.map(({ text, change }, index) => {
    const Tag = change === 'added' ? 'ins' : change === 'removed' ? 'del' : 'span';
    return (
      // oxlint-disable-next-line react/no-array-index-key -- the pieces have no identity but their order
      <Tag key={index} className={PIECE_CLASSES[change]}>
        {safeProse(text)}
      </Tag>
    );
  });
}
