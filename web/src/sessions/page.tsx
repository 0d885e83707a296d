/** /sessions: all of them, or one as a thread. */
import type { ReactNode } from 'react';
import { useTitle } from '@/lib/hooks';
import { sessionIn } from './lines';
import { SessionList } from './list';
import { SessionThread } from './thread';

export default function SessionsPage({ session }: { session?: string }): ReactNode {
  const name = session === undefined ? null : sessionIn(window.location.pathname, window.location.search);
  useTitle(name === null ? 'Sessions' : `Session ${name.slice(0, 80)}`);
  return name === null ? <SessionList /> : <SessionThread key={name} session={name} />;
}
