/** What this browser remembers of the page. */
import { useState, type ReactNode } from 'react';
import { askYes } from '@/components/confirm-dialog';
import { Button } from '@/components/button';
import { Section } from './section';

const OURS = 'palaver.';

export function BrowserSection(): ReactNode {
  const [kept] = useState(() => Object.keys(localStorage).filter((key) => key.startsWith(OURS)));
  const forget = async () => {
    const sure = await askYes({
      title: 'Forget what this browser keeps?',
      text: 'Theme, preferences and unsent drafts go. Threads and boards live on the server and stay.',
      act: 'Forget',
      danger: true,
    });
    if (!sure) return;
    for (const key of kept) localStorage.removeItem(key);
    window.location.reload();
  };
  return (
    <Section title="This browser">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
        <p className="min-w-0 text-[13px] text-muted">
          Threads, boards and files live on the server.{' '}
          {kept.length > 0 ? 'Only your preferences are kept here, and sent nowhere.' : 'Nothing is kept here yet.'}
        </p>
        <Button look="danger" disabled={kept.length === 0} onClick={() => void forget()}>
          Forget
        </Button>
      </div>
    </Section>
  );
}
