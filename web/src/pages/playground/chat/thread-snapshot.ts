/** A thread as the server has it now: the end of a branch, and who is speaking or has failed there. */
import { ApiError, api } from '@/api/client';
import type { Node, Run, Thread } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { UNSTORED, messagesOf } from '@/components/messages/nodes';
import { serverPath } from '@/lib/server-path';

/** How many nodes are shown at first, and how many more at a time when one scrolls up: few enough not to be felt. */
const INITIAL_NODES = 60;
const NODES_PER_PAGE = 20;

export interface ThreadSnapshot {
  thread: Thread;
  /** What was said and has ended, oldest first. */
  nodes: Node[];
  /** The run that answers the last of them. */
  speaking: { since: number | null } | null;
  /** What a failed run said to the last of them; no message where it said nothing. */
  failed: { error: { message: string; code?: string }; message: ChatMessage | null } | null;
}

/** `at`: where the branch ends; null: at the thread's head. */
export async function fetchSnapshot(id: string, at: string | null): Promise<ThreadSnapshot> {
  const [thread, page] = await Promise.all([
    api('get', '/api/threads/{thread}', { path: { thread: id } }),
    fetchBranch(id, at ?? 'head', INITIAL_NODES),
  ]);
  const nodes = page.filter((node) => node.status !== 'streaming');
  const end = nodes.at(-1);
  const run = thread.run ? await findRunningRun(thread.run) : null;
  // A run that is too young to be found answers the head, as nearly all do.
  const speaks = thread.run !== null && (run ? run.answers === (end?.id ?? null) : at === null);
  return {
    thread,
    nodes,
    speaking: speaks ? { since: run ? Date.parse(run.created_at) : null } : null,
    failed: !speaks && end?.role === 'user' ? await fetchFailure(id, end.id) : null,
  };
}

/** A page of a branch, up to that node. */
export async function fetchBranch(thread: string, at: string, limit = NODES_PER_PAGE): Promise<Node[]> {
  return (await api('get', '/api/threads/{thread}/messages', { path: { thread }, query: { at, limit } })).data;
}

/** End the run that speaks in a thread, if one does; the answer comes when its end is recorded. */
export async function cancelRun(workflow: string, thread: string): Promise<void> {
  // Should it not be heard, the thread tells so when it is read.
  await fetch(serverPath(`/${encodeURIComponent(workflow)}/api/chat/${thread}/stop`), { method: 'POST' }).catch(
    () => {},
  );
}

async function findRunningRun(run: string): Promise<Run | null> {
  try {
    return await api('get', '/api/runs/{run}', { path: { run } });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** What a failed run said is beside the branch, not in it: nobody goes on from there. */
async function fetchFailure(thread: string, question: string): Promise<ThreadSnapshot['failed']> {
  const [last] = (await api('get', '/api/runs', { query: { thread, limit: 1 } })).data;
  if (last?.answers !== question || last.status !== 'failed') return null;
  const run = await api('get', '/api/runs/{run}', { path: { run: last.id }, query: { include: 'reply' } });
  const code = run.error?.['code'];
  const error = {
    message: String(run.error?.['message'] ?? 'The run failed.'),
    ...(typeof code === 'string' ? { code } : {}),
  };
  const toFailedNode = (message: Pick<Node, 'role' | 'parts'> & { id?: string | null }, place: number): Node => ({
    id: message.id ?? `${run.id}.${place}`,
    parent: question,
    role: message.role,
    parts: message.parts,
    name: null,
    metadata: {},
    origin: 'run',
    run: run.id,
    status: 'failed',
    ...UNSTORED,
    created_at: run.created_at,
  });
  const said = (run.reply?.messages ?? []).map(toFailedNode);
  const [shown] = messagesOf(said);
  return {
    error,
    message: shown?.parts.length ? { ...shown, metadata: { runId: run.id, status: 'failed', error } } : null,
  };
}
