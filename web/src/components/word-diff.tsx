/** A diff of two texts, word by word: removed words struck through, added ones underlined. */
import { useMemo, type ReactNode } from 'react';
import { textDiff } from '@/lib/diff';
import { safeProse } from '@/lib/safe-text';

const LOOKS = {
  same: '',
  added: 'rounded-sm bg-good-soft text-good no-underline',
  removed: 'rounded-sm bg-bad-soft text-bad line-through',
};

export function WordDiff({ from, to }: { from: string; to: string }): ReactNode {
  const pieces = useMemo(() => textDiff(from, to), [from, to]);
  return pieces.map(({ text, change }, index) => {
    const Tag = change === 'added' ? 'ins' : change === 'removed' ? 'del' : 'span';
    return (
      // oxlint-disable-next-line react/no-array-index-key -- the pieces have no identity but their order
      <Tag key={index} className={LOOKS[change]}>
        {safeProse(text)}
      </Tag>
    );
  });
}
