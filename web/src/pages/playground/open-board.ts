/** Which board an address means: a saved one, a thread that stands alone, or a draft that nobody has sent in yet. */
import { api } from '@/api/client';
import { type Bootstrap, queryClient, workflowQuery } from '@/api/queries';
import type { WorkflowRow } from '@/api/types';
import { BoardStore } from './board-store';
import { initialInputs } from './row-inputs';

export interface OpenedBoard {
  /** Differs for every opening. */
  key: number;
  store: BoardStore;
  title: string;
  /** A thread of no board. */
  alone: boolean;
}

type KnownWorkflows = Pick<WorkflowRow, 'name' | 'is_chat' | 'default'>;

/** The workflow that a new board begins with: the one that was asked for, the default, the first chat, or any. */
export function initialWorkflow(known: readonly KnownWorkflows[], wanted: string | null): KnownWorkflows | undefined {
  return (
    known.find((one) => one.name === wanted) ??
    known.find((one) => one.default && one.is_chat) ??
    known.find((one) => one.is_chat) ??
    known[0]
  );
}

/** `fresh`: a new one, whatever was used last. */
export async function openBoard(
  what: string | undefined,
  wanted: string | null,
  fresh: boolean,
  told: Bootstrap,
  signal: AbortSignal,
): Promise<OpenedBoard | null> {
  if (what?.startsWith('conv_')) return openThread(what, signal);
  const saved = what ?? (wanted || fresh ? null : told.board_id);
  if (saved) return openSavedBoard(await BoardStore.open(saved, signal));
  const workflow = initialWorkflow(told.workflows.data, wanted);
  return workflow ? openSavedBoard(await openDraft(workflow)) : null;
}

let countOpens = 0;
const openSavedBoard = (store: BoardStore): OpenedBoard => ({
  key: ++countOpens,
  store,
  title: store.board.name,
  alone: false,
});

async function openDraft(workflow: KnownWorkflows): Promise<BoardStore> {
  // What its first row begins with; should nobody know that, it begins with nothing.
  await queryClient.fetchQuery({ ...workflowQuery(workflow.name), retry: false }).catch(() => {});
  const columns = [{ id: 'c1', workflow: workflow.name, variant: 'default', parameters: {} }];
  return BoardStore.draft({
    name: '',
    mode: workflow.is_chat ? 'chat' : 'single',
    columns,
    rows: [{ id: 'r1', name: '', inputs: initialInputs(columns) }],
    layout: {},
  });
}

async function openThread(id: string, signal: AbortSignal): Promise<OpenedBoard> {
  const thread = await api('get', '/api/threads/{thread}', { path: { thread: id }, signal });
  const store = BoardStore.draft({
    name: thread.title,
    mode: 'chat',
    columns: [
      {
        id: 'c1',
        workflow: thread.workflow ?? '',
        variant: thread.variant ?? 'default',
        parameters: thread.parameters,
      },
    ],
    rows: [{ id: 'r1', name: '', inputs: thread.inputs }],
    layout: {},
  });
  store.filled('r1', 'c1', { thread: id });
  return { key: ++countOpens, store, title: thread.title, alone: true };
}
