/** Dialog that connects a service: URL, test, connect. */
import { useMutation } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { ApiError, type Workflow } from '@/api/client';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { Select, TextField, LabeledField } from '@/components/form-fields';
import { isObject } from '@/components/forms/json-schema';
import { CodeBlock } from '@/components/markdown/code-block';
import { ErrorMessage, Spinner } from '@/components/status';
import { showToast } from '@/components/toast';
import { focusRef } from '@/lib/dom';
import { connect, type Dialect, type ConnectionRequest } from './connections';
import { dialectLabel, parseEvidence, parseProbes, EvidenceView, ProbeTable } from './evidence';

const KINDS = { ask: null, chat: true, other: false } as const;
type KindName = keyof typeof KINDS;
const DIALECTS: readonly Dialect[] = ['invoke', 'run', 'responses', 'chat-completions'];

const DESCRIPTION =
  'Any service that supports the invoke envelope, OpenAI Responses or Chat Completions, ' +
  'or publishes an OpenAPI document.';

export default function ConnectDialog({ onClose }: { onClose: () => void }): ReactNode {
  const [, navigate] = useLocation();
  const [url, setUrl] = useState('');
  const [name, setName] = useState('');
  const [kind, setKind] = useState<KindName>('ask');
  const [dialect, setDialect] = useState<Dialect | ''>('');
  const [model, setModel] = useState('');
  const request: ConnectionRequest = { url, name, isChat: KINDS[kind], dialect: dialect || null, model };
  const test = useMutation({ mutationFn: (connection: ConnectionRequest) => connect(connection, true) });
  const create = useMutation({
    mutationFn: (connection: ConnectionRequest) => connect(connection, false),
    onSuccess: (workflow) => {
      onClose();
      showToast(`Connected ${workflow.name}.`);
      navigate(`/workflows/${encodeURIComponent(workflow.name)}`);
    },
  });
  const busy = test.isPending || create.isPending;
  const error = create.error ?? test.error;
  const resetResult = () => {
    test.reset();
    create.reset();
  };
  return (
    <Dialog open wide onClose={onClose} title="Connect a service" description={DESCRIPTION}>
      <form
        className="flex flex-col gap-4 pt-2"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(request);
        }}
      >
        <LabeledField label="URL">
          <TextField
            ref={focusRef}
            type="url"
            required
            maxLength={2000}
            placeholder="https://host/app"
            value={url}
            onChange={(event) => {
              setUrl(event.target.value);
              resetResult();
            }}
          />
        </LabeledField>
        <div className="grid gap-4 sm:grid-cols-2">
          <LabeledField label="Name" hint="optional">
            <TextField
              maxLength={64}
              placeholder="Detected from the service"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          </LabeledField>
          <LabeledField label="Type">
            <Select
              value={kind}
              onChange={(event) => {
                setKind(event.target.value as KindName);
                resetResult();
              }}
            >
              <option value="ask">Detect</option>
              <option value="chat">Chat</option>
              <option value="other">Single-turn</option>
            </Select>
          </LabeledField>
          <LabeledField label="Protocol">
            <Select
              value={dialect}
              onChange={(event) => {
                setDialect(event.target.value as Dialect | '');
                resetResult();
              }}
            >
              <option value="">Detect</option>
              {DIALECTS.map((option) => (
                <option key={option} value={option}>
                  {dialectLabel(option)}
                </option>
              ))}
            </Select>
          </LabeledField>
          <LabeledField label="Model" hint="if the service has several">
            <TextField maxLength={200} value={model} onChange={(event) => setModel(event.target.value)} />
          </LabeledField>
        </div>
        <div aria-live="polite" className="flex flex-col gap-3">
          {busy && <Busy />}
          {!busy && error && <ConnectError error={error} />}
          {!busy && !error && test.data && <ConnectResult workflow={test.data} />}
        </div>
        <div className="flex justify-end gap-2">
          <Button disabled={busy || !url.trim()} onClick={() => test.mutate(request)}>
            Test
          </Button>
          <Button type="submit" variant="main" disabled={busy || !url.trim()}>
            Connect
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

const Busy = (): ReactNode => (
  <p className="flex items-center gap-2 text-muted">
    <Spinner label="Detecting" /> Detecting type and protocol…
  </p>
);

function ConnectResult({ workflow }: { workflow: Workflow }): ReactNode {
  const evidence = parseEvidence(workflow.evidence);
  return (
    <section className="flex flex-col gap-2 rounded-xl border p-4">
      <h3 className="font-medium wrap-anywhere">
        <span className="text-good">Found:</span> {workflow.name}
      </h3>
      {workflow.description && (
        <p className="text-muted wrap-anywhere" dir="auto">
          {workflow.description}
        </p>
      )}
      {evidence && <EvidenceView evidence={evidence} />}
    </section>
  );
}

/** The error, the probes, and instructions where credentials are missing. */
function ConnectError({ error }: { error: Error }): ReactNode {
  const details = error instanceof ApiError && isObject(error.details) ? error.details : {};
  const probes = parseProbes(details.tried);
  // The table replaces the rest of the message, which is meant for terminals.
  const [summary = error.message] = probes.length > 0 ? error.message.split(/\.? Tried: /) : [error.message];
  return (
    <>
      <ErrorMessage
        error={
          probes.length > 0
            ? `${summary.replace(/\.$/, '')}. If you know the type and protocol, choose them above.`
            : summary
        }
      />
      <ProbeTable probes={probes} />
      {Array.isArray(details.models) && (
        <p className="text-muted wrap-anywhere">Available models: {details.models.join(', ')}</p>
      )}
      {typeof details.settings === 'string' && <CodeBlock text={details.settings.trimEnd()} language="toml" />}
    </>
  );
}
