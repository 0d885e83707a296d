/** What was said in a trace, as a chat; one can go on from any of it. */
import { useQuery } from '@tanstack/react-query';
import { MessagesSquare } from 'lucide-react';
import { useCallback, useMemo, useState, type ReactNode } from 'react';
import { api } from '@/api/client';
import { itemsOf, type Item, StepsView } from '@/components/messages/conversation-steps';
import type { Live } from '@/components/open-in-playground';
import { Empty, Problem, Spinner } from '@/components/status';
import { formatSize } from '@/lib/format';
import { Cut } from './cut';
import { conversation } from './queries';

interface Props {
  trace: string;
  onSpan: (id: string) => void;
  goOn: (read: () => Promise<Live>) => Promise<void>;
}

export function ConversationPane({ trace, onSpan, goOn }: Props): ReactNode {
  const [whole, setWhole] = useState(false);
  const short = useQuery(conversation(trace, false));
  const long = useQuery({ ...conversation(trace, true), enabled: whole });
  const told = long.data ?? short.data;
  const cut = told?.cut ?? 0;
  const items = useMemo(() => (told ? itemsOf(told.steps) : []), [told]);
  const resume = useCallback(
    (item: Item) => goOn(() => api('post', '/api/traces/{trace}/thread', { path: { trace }, body: { upto: item.upto } })),
    [goOn, trace],
  );
  const showSpan = useCallback((item: Item) => onSpan(item.span), [onSpan]);
  if (!told) return <div className="p-4">{short.error ? <Problem error={short.error} /> : <Spinner />}</div>;
  if (!items.length) {
    return (
      <Empty title="No conversation" icon={<MessagesSquare />}>
        No span of this trace tells what was said. Choose one to see what it was given and what it gave.
      </Empty>
    );
  }
  return (
    <div className="mx-auto max-w-3xl px-4 py-4">
      {cut > 0 && (
        <Cut busy={long.isFetching} onAll={() => setWhole(true)}>
          Long texts are shown from their beginning; {formatSize(cut)} are left out.
        </Cut>
      )}
      {long.error && <Problem error={long.error} />}
      <StepsView items={items} onSpan={showSpan} resume={resume} />
    </div>
  );
}
