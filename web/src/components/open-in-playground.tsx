/** Open a conversation or the inputs of a trace in the playground; asks for the workflow if it is unknown. */
import { useQuery } from '@tanstack/react-query';
import { useCallback, useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { type Schemas, api, type Workflow } from '@/api/client';
import { workflowsQuery, queryClient, workflowQuery } from '@/api/queries';
import { completeStep } from '@/app/tour/progress';
import { BoardStore } from '@/pages/playground/board-store';
import { Dialog } from './dialog';
import { Badge, ErrorMessage, Spinner } from './status';
import { showToast, showError } from './toast';

interface OpenInPlayground {
  /** `read` loads what to open. */
  open: (read: () => Promise<PlaygroundTarget>, title: string) => Promise<void>;
  busy: boolean;
  /** Dialog to render: asks for the workflow. */
  question: ReactNode;
}

export function useOpenInPlayground(): OpenInPlayground {
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState(false);
  const [dialogTarget, setDialogTarget] = useState<{ live: PlaygroundTarget; title: string } | null>(null);

  const start = useCallback(
    async (workflow: string, live: PlaygroundTarget, title: string) => {
      const { address, rest } = await openInPlayground(workflow, live, title);
      completeStep('trace');
      if (rest) showToast(rest);
      navigate(address);
    },
    [navigate],
  );
  const open = useCallback(
    (read: () => Promise<PlaygroundTarget>, title: string) => {
      const go = async () => {
        const live = await read();
        if (live.workflow && (await isServedWorkflow(live.workflow))) await start(live.workflow, live, title);
        else setDialogTarget({ live, title });
      };
      setBusy(true);
      return go().finally(() => setBusy(false));
    },
    [start],
  );
  const choose = (workflow: string) => {
    if (!dialogTarget) return;
    setDialogTarget(null);
    setBusy(true);
    start(workflow, dialogTarget.live, dialogTarget.title)
      .catch(showError)
      .finally(() => setBusy(false));
  };
  return {
    open,
    busy,
    question: (
      <WorkflowDialog
        name={dialogTarget?.live.workflow ?? null}
        open={dialogTarget !== null}
        onClose={() => setDialogTarget(null)}
        onChoose={choose}
      />
    ),
  };
}

function WorkflowDialog({
  name,
  open,
  onClose,
  onChoose,
}: {
  name: string | null;
  open: boolean;
  onClose: () => void;
  onChoose: (workflow: string) => void;
}): ReactNode {
  const workflows = useQuery({ ...workflowsQuery(), enabled: open });
  const rows = workflows.data?.data.toSorted((one, other) => Number(other.is_chat) - Number(one.is_chat));
  const reason = name ? `${name.slice(0, 80)} is not served here.` : 'The trace does not say which workflow it is of.';
  return (
    <Dialog open={open} onClose={onClose} title="Which workflow goes on?" description={reason}>
      {workflows.error && <ErrorMessage error={workflows.error} />}
      {workflows.isPending && <Spinner />}
      {rows?.length === 0 && <p className="text-muted">No workflow is served.</p>}
      <ul className="-mx-2 space-y-0.5">
        {rows?.map((workflow) => (
          <li key={workflow.name}>
            <button
              type="button"
              onClick={() => onChoose(workflow.name)}
              className="flex w-full items-center gap-2 rounded-lg px-2 py-1.5 text-left hover:bg-sunken"
            >
              <span className="min-w-0 grow">
                <span className="block truncate font-medium">{workflow.name}</span>
                {workflow.description && (
                  <span className="block truncate text-[13px] text-muted" dir="auto">
                    {workflow.description}
                  </span>
                )}
              </span>
              <Badge>{workflow.is_chat ? 'Chat' : 'Single turn'}</Badge>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export type PlaygroundTarget = Schemas['Live'];
type Values = Record<string, unknown>;

/** Split inputs into those that the workflow accepts and the names of the others. */
export function fittingInputs(values: Values, schema: Values | undefined): { accepted: Values; rest: string[] } {
  const declared = schema?.['properties'];
  const names = typeof declared === 'object' && declared !== null ? declared : {};
  const takesAny = schema?.['additionalProperties'] !== undefined && schema['additionalProperties'] !== false;
  const all = Object.entries(values);
  const isAccepted = (name: string) => takesAny || Object.hasOwn(names, name);
  return {
    accepted: Object.fromEntries(all.filter(([name]) => isAccepted(name))),
    rest: all.flatMap(([name]) => (isAccepted(name) ? [] : [name])),
  };
}

/** One line about omitted inputs; null if there are none. */
export function omittedInputs(workflow: string, names: readonly string[]): string | null {
  if (!names.length) return null;
  const shortNames = names.slice(0, 3).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name));
  const more = names.length - shortNames.length;
  return `${workflow} does not take ${shortNames.join(', ')}${more > 0 ? ` and ${more} more` : ''}: left out.`;
}

export async function isServedWorkflow(name: string | null): Promise<boolean> {
  if (!name) return false;
  const { data } = await queryClient.fetchQuery(workflowsQuery());
  return data.some((one) => one.name === name);
}

/** Create a thread or a board and return its path, with the inputs that were omitted. Runs nothing. */
export async function openInPlayground(
  name: string,
  live: PlaygroundTarget,
  title: string,
): Promise<{ address: string; rest: string | null }> {
  const workflow = await queryClient.fetchQuery(workflowQuery(name));
  const inputs = fittingInputs(live.inputs, workflow.schemas.inputs);
  const parameters = fittingInputs(live.parameters, workflow.schemas.parameters);
  const request = { inputs: inputs.accepted, parameters: parameters.accepted };
  const address = await (workflow.is_chat
    ? createThread(workflow, live, request)
    : createBoard(workflow, request, title));
  return { address, rest: omittedInputs(name, [...inputs.rest, ...parameters.rest]) };
}

interface OpenRequest {
  inputs: Values;
  parameters: Values;
}

async function createThread({ name }: Workflow, live: PlaygroundTarget, request: OpenRequest): Promise<string> {
  const body = { workflow: name, ...request, messages: live.messages };
  // The generated body type allows no keys in free-form objects; send what was read.
  const created = await api('post', '/api/threads', { body: body as never });
  return `/play/${created.id}`;
}

async function createBoard({ name }: Workflow, { inputs, parameters }: OpenRequest, title: string): Promise<string> {
  const store = BoardStore.draft({
    name: title.slice(0, 120),
    mode: 'single',
    columns: [{ id: 'c1', workflow: name, variant: 'default', parameters }],
    rows: [{ id: 'r1', name: '', inputs }],
    layout: {},
  });
  return `/play/${(await store.ensure()).id}`;
}
