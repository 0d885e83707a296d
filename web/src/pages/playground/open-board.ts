/** Resolve the board of a URL: a saved board, a single thread, or a new draft. */
import { api, type WorkflowRow } from '@/api/client';
import { type Bootstrap, queryClient, workflowQuery } from '@/api/queries';
import { BoardStore } from './board-store';
import { initialInputs } from './row-inputs';

export interface OpenedBoard {
  /** Unique for each opening. */
  key: number;
  store: BoardStore;
  title: string;
  /** Whether it is a thread outside of boards. */
  isStandalone: boolean;
}

type KnownWorkflow = Pick<WorkflowRow, 'name' | 'is_chat' | 'default'>;

/** Workflow of a new board: the requested one, the default, the first chat, or any. */
export function initialWorkflow(
  workflows: readonly KnownWorkflow[],
  requested: string | null,
): KnownWorkflow | undefined {
  return (
    workflows.find((workflow) => workflow.name === requested) ??
    workflows.find((workflow) => workflow.default && workflow.is_chat) ??
    workflows.find((workflow) => workflow.is_chat) ??
    workflows[0]
  );
}

/** `isNew`: always open a new draft. */
export async function openBoard(
  id: string | undefined,
  requested: string | null,
  isNew: boolean,
  bootstrap: Bootstrap,
  signal: AbortSignal,
): Promise<OpenedBoard | null> {
  if (id?.startsWith('conv_')) return openThread(id, signal);
  const savedId = id ?? (requested || isNew ? null : bootstrap.board_id);
  if (savedId) return toOpenedBoard(await BoardStore.open(savedId, signal));
  const workflow = initialWorkflow(bootstrap.workflows.data, requested);
  return workflow ? toOpenedBoard(await createDraft(workflow)) : null;
}

let lastKey = 0;
const toOpenedBoard = (store: BoardStore): OpenedBoard => ({
  key: ++lastKey,
  store,
  title: store.board.name,
  isStandalone: false,
});

async function createDraft(workflow: KnownWorkflow): Promise<BoardStore> {
  // Load the example inputs of the first row; without them it starts empty.
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
  store.fillCell('r1', 'c1', { thread: id });
  return { key: ++lastKey, store, title: thread.title, isStandalone: true };
}
