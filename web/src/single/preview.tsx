import '@/styles.css';
import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { Tooltip } from 'radix-ui';
import { StrictMode, useState, type ReactNode } from 'react';
import { createRoot } from 'react-dom/client';
import { client, workflow } from '@/api/queries';
import { startTheme } from '@/app/theme';
import { SchemaForm } from '@/forms/schema-form';

startTheme();
function Forms({ name }: { name: string }): ReactNode {
  const found = useQuery(workflow(name)).data;
  const [value, setValue] = useState<Record<string, unknown>>({});
  const [inputs, setInputs] = useState<Record<string, unknown>>({});
  if (!found) return null;
  return (
    <div className="grid gap-6 p-6 sm:grid-cols-3">
      <div><SchemaForm schema={found.schemas.parameters ?? {}} placeholder={found.parameters} value={value} onChange={setValue} errors={[{ path: '/model', message: 'There is no such model.' }]} /></div>
      <div><SchemaForm compact schema={found.schemas.inputs ?? {}} value={inputs} onChange={setInputs} without={['messages']} /></div>
      <pre data-testid="value" className="whitespace-pre-wrap">{JSON.stringify({ value, inputs }, null, 1)}</pre>
    </div>
  );
}
const place = document.getElementById('root');
if (place) createRoot(place).render(
  <StrictMode><QueryClientProvider client={client}><Tooltip.Provider><Forms name={new URLSearchParams(location.search).get('w') ?? 'writer'} /></Tooltip.Provider></QueryClientProvider></StrictMode>,
);
