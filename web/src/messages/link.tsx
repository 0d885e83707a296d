/** A link out of the page. It says where it leads when its words do not. */
import type { ReactNode } from 'react';
import { type Address, tells } from '@/lib/safe-text';

export function OutLink({ to, words, children }: { to: Address; words: string; children: ReactNode }): ReactNode {
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
      {!tells(words, to) && (
        <span dir="ltr" className="text-[0.85em] wrap-anywhere text-faint">
          {' '}
          ({to.host})
        </span>
      )}
    </>
  );
}
